"""Label Studio's answers, read one way wherever they come from: setup, words, answers, exports."""
