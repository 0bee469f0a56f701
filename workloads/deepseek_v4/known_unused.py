"""Keys of a published config.json that change nothing here, each with the reason.

A key that is neither a field of `ModelConfig` nor listed here is refused, so that no setting of a
model is ignored in silence.
"""

KNOWN_UNUSED: dict[str, str] = {
    "architectures": "class name in a library",
    "auto_map": "class path in a library",
    "_name_or_path": "where a library loaded it from",
    "model_type": "checked, then implied",
    "attention_dropout": "training only",
    "initializer_range": "training only",
    "bos_token_id": "tokens are given as ids",
    "eos_token_id": "the length of a reply is given by the traffic",
    "pad_token_id": "batches are ragged, nothing is padded",
    "torch_dtype": "dtypes follow from the tensors' roles",
    "dtype": "dtypes follow from the tensors' roles",
    "transformers_version": "names the writer of the file",
    "use_cache": "the cache is always used",
    "ep_size": "the parallel layout is chosen apart from the model",
    "topk_method": "checked, then implied",
    "chunks": "describes a golden file: the pieces in which its tokens are fed",
    "seed": "describes a golden file: how its weights were drawn",
    "made_with": "describes a golden file: what wrote it",
}
