"""The models of this folder: what is built, and with which inputs. Nothing here allocates: all is on the device `meta`.

A model is a function that gives the module and its inputs by name. Widths and depths are those of the models that are
named; Mixtral has two of its 32 layers.
"""

import torch
import torchvision
import transformers
from diffusers import UNet2DConditionModel


def tokens(batch, length):
    return torch.zeros(batch, length, dtype=torch.long)


def gpt2_config():
    return transformers.GPT2Config(use_cache=False, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)


def bert_config():
    return transformers.BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def llama_config(**changes):
    """Llama 3.2 1B."""
    return transformers.LlamaConfig(
        **{
            "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
            "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "tie_word_embeddings": True,
            "max_position_embeddings": 131072, "rope_theta": 500000.0, "use_cache": False, **changes,
        }
    )  # fmt: skip


def gpt2():
    return transformers.GPT2LMHeadModel(gpt2_config()), {"input_ids": tokens(8, 1024)}


def gpt2_masked():
    """Without a mask the model looks for packed sequences, by an operation that the exporter by tracing does not have."""
    model, inputs = gpt2()
    return model, {**inputs, "attention_mask": torch.ones(8, 1024, dtype=torch.long)}


def bert():
    return transformers.BertForMaskedLM(bert_config()), {"input_ids": tokens(8, 512)}


def llama():
    return transformers.LlamaForCausalLM(llama_config()).bfloat16(), {"input_ids": tokens(8, 1024)}


def qwen():
    """Qwen 2.5 0.5B."""
    config = transformers.Qwen2Config(
        vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
        num_key_value_heads=2, tie_word_embeddings=True, rope_theta=1000000.0, use_cache=False,
    )  # fmt: skip
    return transformers.Qwen2ForCausalLM(config).bfloat16(), {"input_ids": tokens(8, 1024)}


def mixtral():
    """Mixtral 8x7B, two layers of 32; experts as one grouped product."""
    config = transformers.MixtralConfig(num_hidden_layers=2, use_cache=False)
    config._experts_implementation = "grouped_mm"
    return transformers.MixtralForCausalLM(config).bfloat16(), {"input_ids": tokens(2, 512)}


def t5():
    config = transformers.T5Config(
        d_model=768, d_ff=3072, num_layers=12, num_heads=12, vocab_size=32128, use_cache=False, dropout_rate=0.0
    )
    inputs = {"input_ids": tokens(8, 512), "decoder_input_ids": tokens(8, 128)}
    return transformers.T5ForConditionalGeneration(config), inputs


def whisper():
    """Whisper small: 30 seconds of sound, 128 tokens of text."""
    config = transformers.WhisperConfig(
        vocab_size=51865, d_model=768, encoder_layers=12, decoder_layers=12, encoder_attention_heads=12,
        decoder_attention_heads=12, encoder_ffn_dim=3072, decoder_ffn_dim=3072, use_cache=False,
    )  # fmt: skip
    model = transformers.WhisperForConditionalGeneration(config)
    return model, {"input_features": torch.zeros(8, 80, 3000), "decoder_input_ids": tokens(8, 128)}


def vit():
    return transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000)), {
        "pixel_values": torch.zeros(8, 3, 224, 224)
    }


def swin():
    return torchvision.models.swin_t(), {"x": torch.zeros(8, 3, 224, 224)}


def resnet():
    return torchvision.models.resnet50(), {"x": torch.zeros(8, 3, 224, 224)}


def mobilenet():
    """Wide activations between products of little work."""
    return torchvision.models.mobilenet_v2(), {"x": torch.zeros(8, 3, 224, 224)}


def convnext():
    return torchvision.models.convnext_tiny(), {"x": torch.zeros(8, 3, 224, 224)}


def unet():
    """The denoiser of Stable Diffusion 1.5."""
    model = UNet2DConditionModel(
        sample_size=64, cross_attention_dim=768, attention_head_dim=8, block_out_channels=(320, 640, 1280, 1280)
    )
    inputs = {
        "sample": torch.zeros(2, 4, 64, 64),
        "timestep": torch.zeros((), dtype=torch.long),
        "encoder_hidden_states": torch.zeros(2, 77, 768),
    }
    return model, inputs


def four_bit():
    """A Llama of twelve layers, whose products are quantised to four bits afterwards."""
    config = llama_config(
        vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=12, num_attention_heads=16,
        num_key_value_heads=16, tie_word_embeddings=False, max_position_embeddings=2048,
    )  # fmt: skip
    mask = torch.ones(8, 256, dtype=torch.long)
    return transformers.LlamaForCausalLM(config), {"input_ids": tokens(8, 256), "attention_mask": mask}


class Decode(torch.nn.Module):
    """One token more of every sequence, with the keys and values of those before."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, past_key_values):
        config = self.model.config
        cache = transformers.DynamicCache(config=config)
        for layer, (key, value) in enumerate(past_key_values):
            cache.update(key, value, layer)
        return self.model(input_ids=input_ids, past_key_values=cache, use_cache=True)


def llama_decode():
    """Llama 3.2 1B: eight sequences of 2,048 tokens, and one token more."""
    model = transformers.LlamaForCausalLM(llama_config(use_cache=True)).bfloat16()
    config = model.config
    shape = (8, config.num_key_value_heads, 2048, config.head_dim)
    past = [
        [torch.zeros(shape, dtype=torch.bfloat16) for _ in "kv"] for _ in range(config.num_hidden_layers)
    ]
    return Decode(model), {"input_ids": tokens(8, 1), "past_key_values": past}


def gpt2_step():
    words = tokens(8, 1024)
    return transformers.GPT2LMHeadModel(gpt2_config()), {"input_ids": words, "labels": words}


def bert_step():
    words = tokens(8, 512)
    return transformers.BertForMaskedLM(bert_config()), {"input_ids": words, "labels": words}


def llama_step():
    words = tokens(2, 1024)
    return transformers.LlamaForCausalLM(llama_config()).bfloat16(), {"input_ids": words, "labels": words}
