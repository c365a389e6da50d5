"""A model, GPUs and a layout become a Problem: times, bytes and cuts.

Subjects: the model (`model`, `huggingface`, `model_reader`, `parameters`), its GPUs (`hardware`, `hardware_reader`,
`presets/`), the setup (`setup`, `setup_reader`), times (`terms`, `communication`, `times`), `memory`, and what is
said of them together (`items`, `derived`, `result`, `changes`, `trace`, `config_text`, `trust/`).
"""
