"""Fine-tune a Hugging Face model for average precision with their Trainer.

    python examples/torch/hugging_face_trainer.py     # needs pip install transformers accelerate

The model is tiny and randomly initialised, and the "text" is made of random tokens, so nothing is
downloaded. A text is positive if it holds one of two rare tokens.
"""

import tempfile
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from apmax import average_precision
from apmax.torch import APLoss, IndexedDataset, PositiveNegativeBatchSampler


class Texts(Dataset[dict[str, Tensor]]):
    def __init__(self, n: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.tokens = torch.randint(1, 100, (n, 16), generator=generator)
        self.labels = ((self.tokens == 7) | (self.tokens == 8)).sum(1) >= 2

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"input_ids": self.tokens[index], "labels": self.labels[index].long()}


class APTrainer(Trainer):  # type: ignore[misc]
    """Two methods change: the batches, and the loss."""

    def __init__(self, labels: Tensor, **options: Any) -> None:
        super().__init__(**options)
        self.ap_loss = APLoss(labels, from_logits=True).to(self.args.device)
        self.sampler = PositiveNegativeBatchSampler(labels, self.args.train_batch_size)

    def get_train_dataloader(self) -> Any:
        return DataLoader(IndexedDataset(self.train_dataset), batch_sampler=self.sampler)

    def compute_loss(self, model: Any, inputs: Any, *rest: Any, **options: Any) -> Tensor:
        device = self.args.device
        labels, index = inputs.pop("labels").to(device), inputs.pop("index").to(device)
        logits = model(input_ids=inputs["input_ids"].to(device)).logits
        value: Tensor = self.ap_loss(logits[:, 1] - logits[:, 0], index, labels)
        return value


def train(epochs: int = 15) -> float:
    texts, test = Texts(3000, seed=0), Texts(3000, seed=1)
    torch.manual_seed(0)
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=100, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=64, max_position_embeddings=16, num_labels=2,
        )
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, num_train_epochs=epochs, per_device_train_batch_size=64,
            learning_rate=3e-3, save_strategy="no", report_to=[], remove_unused_columns=False,
            disable_tqdm=True, use_cpu=True, seed=0,
        )  # fmt: skip
        APTrainer(texts.labels, model=model, args=arguments, train_dataset=texts).train()
    model.eval()
    with torch.no_grad():
        logits = model(input_ids=test.tokens).logits
    return average_precision(test.labels, logits[:, 1] - logits[:, 0])


if __name__ == "__main__":
    print(f"test AP {train():.3f}")
