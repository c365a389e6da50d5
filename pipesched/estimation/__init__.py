"""A model, GPUs and a layout become a Problem: times, bytes and cuts.

Six subjects: the model (`model`, `huggingface`, `model_reader`, `parameters`), the cluster (`hardware`,
`presets`), the setup (`setup`, `setup_reader`, `layout`), times (`terms`, `communication`, `times`), memory (`memory`,
`in_flight`), and what is said of them together (`items`, `derived`, `result`, `changes`, `trace`, `config_text`).
`cutting/` cuts any list of items into stages, and knows nothing of models.
"""
