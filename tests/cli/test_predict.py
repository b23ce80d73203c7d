"""Predictions of a folder's split from the command line, where rows were left out or labels are missing."""

import shutil

import numpy as np

from fairseq_idpg.inference.folder import SplitPredictions
from fairseq_idpg.predict import main
from tests.folders import validate, write_folder
from tests.inference.saved import write_checkpoint


def test_rows_that_were_left_out_keep_their_places(trained, pairs, tmp_path, capsys):
    """Also for readers of tables, which pass over empty lines."""
    data = shutil.copytree(pairs, tmp_path / "data")
    usual = [str(data), "--path", str(trained[1] / "checkpoint_best.pt"), "--split", "valid", "--cpu", "--out"]
    main([*usual, str(tmp_path / "whole.tsv")])
    (data / "left_out").mkdir()
    (data / "left_out" / "valid.txt").write_text("0 2\n1 4\n1 5\n13 18\n")
    capsys.readouterr()
    main([*usual, str(tmp_path / "p.tsv")])
    assert "4 lines of the raw file, 2, 4, 5, 18\n" in capsys.readouterr().out
    found, whole = ((tmp_path / name).read_text().splitlines() for name in ("p.tsv", "whole.tsv"))
    assert found == ["\t\t", whole[0], "\t\t", "\t\t", *whole[1:], "\t\t"]
    scores = SplitPredictions(np.array([0.5, 0.25]), None, [], 2.0)
    assert scores.lines_by_row([(1, 3)]) == ["1.000000", "nan", "0.500000"]


def test_splits_without_labels_are_predicted(backbone, tmp_path):
    data = write_folder(tmp_path / "data", splits={"train": 24, "valid": 13, "test": 13})
    checkpoint = write_checkpoint(tmp_path / "x.pt", data, backbone)

    def predicted():
        main([str(data), "--path", str(checkpoint), "--out", str(tmp_path / "p.tsv"), "--cpu"])  # the test split
        return (tmp_path / "p.tsv").read_text()

    labelled = predicted()
    assert len(labelled.splitlines()) == 13
    for path in (data / "label").glob("test.*"):
        path.unlink()
    assert predicted() == labelled
    line = validate(data, checkpoint, "--valid-subset", "test", succeed=False).last_line
    assert "split test has no labels" in line
    shutil.rmtree(data / "label")
    (data / "label").mkdir()  # as preprocess leaves it where there are no labels at all
    (data / "label" / "dict.txt").write_text("".join(f"madeupword{i:04d} 0\n" for i in range(4)))
    assert predicted() == labelled
