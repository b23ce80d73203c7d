"""DePT: a table, and a pair of matrices whose product is added to the words."""

from tests.contract import Row
from tests.methods.prompts.test_task_prompts import by_hand


def added(method):
    return 8 / method.words.a.size(1) ** 0.5 * (method.words.a @ method.words.b)


CONTRACT = {"dept": Row(98_560, "table words.a words.b", by_hand, added=added)}
