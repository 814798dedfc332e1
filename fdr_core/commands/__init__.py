"""Commands of `evenhand` that need files only, one module each, loaded when it is used."""

#: Every command with the line that `evenhand --help` shows: importing the commands to list them would take seconds.
COMMANDS = {
    "analyze": "Find the annotators in DATA who click a side, and write a report.",
    "doctor": "Check the service, or say what a file of answers can be used for.",
    "export-preferences": "Write FILE's comparisons as preference pairs with the leans taken out.",
    "gate": "Hold the lean of the judges in LOG against a limit.",
    "prepare": "Write Label Studio tasks from PAIRS, sides assigned by recorded coin flips.",
    "selftest": "Simulate on the design of FILE and show how well each method does.",
    "simulate": "Write answers of a simulated crowd, and the truth.",
}
