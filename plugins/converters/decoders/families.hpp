#pragma once
#include <optional>
#include <vector>

#include "tessera/converter.hpp"

namespace tessera {

/// Which layers of a family attend to a window of positions only.
enum class Windows {
  none,      ///< none of them: the family has no such keys
  every,     ///< every layer, unless "sliding_window" is null
  optional,  ///< those that "layer_types" or "max_window_layers" name, with "use_sliding_window"
  given,     ///< every layer, where "sliding_window" is a number
  used,      ///< every layer, with "use_sliding_window"
};

/// Which layers of a family with experts have none.
enum class DenseLayers {
  none,
  stepped,  ///< those that "decoder_sparse_step" and "mlp_only_layers" say
  first,    ///< as many as "first_k_dense_replace" says
};

/// Keys and names of a family with experts.
struct Experts {
  const char *count, *also_count;  ///< keys for their number; the second in later versions
  const char* ffn;                 ///< key for the inner features of one
  /// Key that says whether the weights of a token's experts add up to 1; nullptr: they always do.
  const char* sums_to_one;
  DenseLayers dense;
  const char *layer, *gate, *up, *down;  ///< names in files: "block_sparse_moe", "w1", …
  /// Scores are sigmoids with a bias, experts form groups, and some are shared, as DeepSeek's.
  bool grouped = false;
};

/// A family of decoders of transformers. All of them are Llamas with the differences given here.
struct Family {
  const char* type;                      ///< its "model_type", and the name of its converter
  const char* name;                      ///< in errors: "Llama"
  const char *with_head, *without_head;  ///< classes of transformers
  const char* doc;
  /// The family's keys, with what transformers 5 takes for those that config.json leaves out.
  Settings defaults;
  Settings only = {};                      ///< keys that have one supported value
  std::vector<const char*> harmless = {};  ///< keys that change nothing
  Windows windows = Windows::none;
  /// The hidden size is a multiple of the number of heads, even where "head_dim" is given.
  bool whole_heads = false;
  /// Do queries, keys and values have biases? For a family without the key "attention_bias".
  bool qkv_bias = false;
  /// Each head's queries and keys go through an RMSNorm, whose weights all heads share.
  bool head_norms = false;
  /// Queries, keys and values are made of short latents, of which config.json has the sizes.
  bool latent = false;
  double rope_theta = 10'000;  ///< where config.json has none
  std::optional<Experts> experts = {};
};

/// Names of the norms of Family::head_norms, here and there.
inline constexpr const char* kHeadNorms[] = {"q_norm", "k_norm"};

const Family& llama_family();
const Family& mistral_family();
const Family& qwen2_family();
const Family& qwen3_family();
const Family& mixtral_family();
const Family& qwen3_moe_family();
const Family& deepseek_v3_family();

}  // namespace tessera
