"""The paper's method: knockoff copies of annotators, the paths on which they race, and who is selected."""
