"""Folders to share on the Hugging Face hub, with the optional package ``huggingface_hub``."""

from typing import Any

from preprocess.errors import reason_of

from ..errors import HUB_NAME, InputError, is_hub_name
from ..saving.shared_folder import ONNX, SHARED_FILES, VOCAB
from .peft import PEFT_FILES


def find_folder(path: str) -> str:
    """Return ``path``, or the folder that a name on the hub was fetched to, with nothing but what is read."""
    if not is_hub_name(path):
        return path
    files = [*SHARED_FILES, *PEFT_FILES, f"{ONNX}*", f"{VOCAB}/*"]
    return call_hub(f"{path} is no file or folder here", "snapshot_download", path, allow_patterns=files)


def push_folder(folder: str, name: str, private: bool = False, token: str | None = None) -> str:
    """Put a folder to share on the hub as ``USER/NAME``, and return where it can be seen."""
    if not HUB_NAME.fullmatch(name):
        raise InputError(f"--push-to-hub {name}: give USER/NAME")
    what, options = f"--push-to-hub {name}", {"repo_id": name, "token": token}
    call_hub(what, "create_repo", private=private, exist_ok=True, **options)
    call_hub(what, "upload_folder", folder_path=folder, commit_message="fairseq_idpg", **options)
    return str(call_hub(what, "hf_hub_url", name, "")).partition("/resolve/")[0]


def call_hub(what: str, function: str, *args: Any, **options: Any) -> Any:
    """Call a function of ``huggingface_hub``; raise InputError, which begins with ``what``, where it fails."""
    try:
        import huggingface_hub

        return getattr(huggingface_hub, function)(*args, **options)
    except ModuleNotFoundError as error:
        raise InputError(f"{what}, and the hub needs {error.name}: pip install huggingface_hub") from None
    except (OSError, ValueError, RuntimeError) as error:  # of the network, of names and answers
        raise InputError(f"{what}; the Hugging Face hub says: {reason_of(error)}") from None
