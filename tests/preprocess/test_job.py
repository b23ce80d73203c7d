"""From options to splits: what is refused before a file is read."""


def test_a_pair_of_one_column(commands):
    path = commands.write("x.tsv", "text\tlabel\nfine\ta\n")
    said = commands.fails("x", "--from-tsv", f"train={path}", "--text-columns", "text", "text")
    assert "--text-columns text text: a pair has two columns, and these are one" in said
    by_number = ["--no-header", "--label-column", "2", "--text-columns", "1", "01"]
    assert "--text-columns 1 01: " in commands.fails("x", "--from-tsv", f"train={path}", *by_number)


def test_three_columns(commands):
    path = commands.write("x.tsv", "a\tb\tc\tlabel\nA\tB\tC\t0\n")
    said = commands.fails("x", "--from-tsv", f"train={path}", "--text-columns", "a", "b", "c")
    assert "--text-columns a b c: give one column, or the two of a pair" in said
