"""One module per command of `evenhand`, loaded when it is used."""
