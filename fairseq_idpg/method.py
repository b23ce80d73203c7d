"""What every method, whatever it injects, tells the model."""

from abc import ABC, abstractmethod
from typing import Optional

from torch import Tensor, nn

from .backbone.injection import Injection


class InjectedMethod(nn.Module, ABC):
    """Base of all methods with parameters of their own.

    Attributes:
        prompt_length: rows that the task reserves in every example; 0 when the input is not lengthened.
        representation: the kind of M(x) that ``injection`` wants, None if it wants none.
        representation_dropout: whether the backbone's dropout stays on while M(x) is computed in training.
    """

    prompt_length = 0
    representation: Optional[str] = None
    representation_dropout = False

    @abstractmethod
    def injection(self, representation: Optional[Tensor], offset: Optional[Tensor]) -> Injection:
        """The values of one forward pass.

        Args:
            representation: M(x), B x d, if there is a ``representation``.
            offset: B, index of each example's first prompt row, if ``prompt_length``.
        """

    @abstractmethod
    def describe(self) -> str:
        """Where the method enters, for the log."""
