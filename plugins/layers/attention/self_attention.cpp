#include <cmath>
#include <utility>

#include "heads.hpp"
#include "latent_attention.hpp"
#include "meeting.hpp"
#include "tessera/plugin.hpp"

namespace tessera {

/// Multi-head (or grouped-query) causal self-attention, heads cut over the tensor group, positions
/// over the context group. Reads and writes the slot "hidden" [n, hidden].
class SelfAttention final : public Layer {
 public:
  struct Config : MeetingKeys {
    i64 hidden = 0, heads = 0;
    Auto<i64> kv_heads, head_size, positions;
    i64 layers = 1;
    double dropout = 0;
    double init_std = 0.02;
    Component<Rotary> rotary{"", {}};
    Component<Module> q_norm{"", {}}, k_norm{"", {}};
    Component<Module> qkv{"column_linear", {}};
    Component<Module> proj{"row_linear", {}};
    static void describe(Schema<Config>& s) {
      model_fields::hidden(s);
      s.field("heads", &Config::heads, "query heads")
          .from("model.heads")
          .at_least(1)
          .at_most(kMostFeatures)
          .structural()
          .megatron("--num-attention-heads");
      s.field("kv_heads", &Config::kv_heads, "key and value heads; \"auto\": as many as heads")
          .at_least(1)
          .at_most(kMostFeatures)
          .megatron("--num-query-groups")
          .also("num_key_value_heads --group-query-attention");
      s.field("head_size",
              &Config::head_size,
              "features of a head; \"auto\": hidden / heads, which has to divide then")
          .at_least(1)
          .at_most(kMostFeatures)
          .megatron("--kv-channels")
          .also("head_dim");
      s.field("positions",
              &Config::positions,
              "rows of the table of rotary angles; \"auto\": positions of a sample")
          .from("model.positions")
          .at_least(1)
          .at_most(kMostPositions);
      model_fields::layers(s);
      model_fields::dropout(s, "of the attention probabilities").megatron("--attention-dropout");
      s.field("causal", &MeetingKeys::causal, "a position attends to itself and earlier ones only")
          .from("model.causal")
          .structural();
      MeetingKeys::describe(s);
      model_fields::init_std(s);
      s.slot("rotary",
             &Config::rotary,
             "how positions turn queries and keys, as a rule in place of "
             "model.embedding.learned_positions; none: they do not")
          .also("rope_scaling rope_parameters");
      s.slot(
           "q_norm", &Config::q_norm, "of each head's queries, before they turn; none: as they are")
          .also("use_qk_norm");
      s.slot("k_norm", &Config::k_norm, "the same of each head's keys");
      s.slot("qkv", &Config::qkv, "projection to queries, keys and values");
      s.slot("proj", &Config::proj, "projection of the heads' results");
    }
  };

  SelfAttention(const Config& config, BuildContext& build)
      : hidden_(build.slot("hidden")), cache_(build.cache_slot()) {
    const i64 kv_heads = config.kv_heads.value_or(config.heads);
    const auto reject = [&](std::string_view key, std::string_view what, i64 a, i64 b) {
      build.reject(key, fmt::format("{} {} does not divide into {}", what, a, b));
    };
    if (!config.head_size && config.hidden % config.heads != 0) {
      reject("heads", "hidden size", config.hidden, config.heads);
    }
    if (config.heads % kv_heads != 0) reject("kv_heads", "heads", config.heads, kv_heads);
    const ops::AttentionShape shape = {
        .batch = build.batch().micro,
        .sequence = build.batch().sequence,
        .heads = build.divide(config.heads, "heads", "heads"),
        .kv_heads = build.divide(kv_heads, "kv_heads", "key and value heads"),
        .head_dim = config.head_size.value_or(config.hidden / config.heads)};
    const i64 q = config.heads * shape.head_dim, kv = kv_heads * shape.head_dim;
    qkv_ = build.child("qkv",
                       config.qkv,
                       {{"in", config.hidden},
                        {"out", q + 2 * kv},
                        {"sections", Value::Array{q, kv, kv}},
                        {"init_std", config.init_std}});
    const double scale = std::sqrt(2.0 * static_cast<double>(config.layers));
    proj_ = build.child("proj",
                        config.proj,
                        {{"in", q}, {"out", config.hidden}, {"init_std", config.init_std / scale}});
    heads_ = Heads({config.q_norm, config.k_norm, config.rotary},
                   shape,
                   config.positions.value_or(build.sequence_length()),
                   build);
    const double scale_of_scores = 1 / std::sqrt(static_cast<double>(shape.head_dim));
    meeting_ = Meeting(config, shape, scale_of_scores, config.dropout, build);
  }

  std::vector<Phase> do_phases() override {
    return {{.scope = "attn",
             .incremental = meeting_.incremental(),
             .run =
                 [this](Context& cx, Bundle& b) {
                   Tensor qkv = (*qkv_)(cx, b[hidden_]);
                   b[hidden_] = {};
                   qkv = heads_.prepared(cx, std::exchange(qkv, {}), b);
                   b[hidden_] = (*proj_)(cx, attend(cx, qkv, b));
                 },
             .looks_ahead = meeting_.spec().causal ? "" : "attention to later positions"}};
  }

 private:
  Tensor attend(Context& cx, const Tensor& qkv, const Bundle& bundle) const {
    if (cx.cache == nullptr) return meeting_.attend(cx, qkv, bundle);
    const i64 queries = meeting_.shape().query_features();
    const Tensor added = qkv.slice(1, queries, qkv.dim(1) - queries);
    const Tensor kept = cx.cache->extend(cx, cache_, added);
    return meeting_.attend_kept(cx, qkv.slice(1, 0, queries), kept, bundle);
  }

  Slot hidden_;
  CacheSlot cache_;
  Heads heads_;
  Meeting meeting_;
  std::shared_ptr<Module> qkv_, proj_;
};

}  // namespace tessera

TESSERA_PLUGIN(attention, "0.1.0", "Tensor- and context-parallel self-attention") {
  registrar.add<tessera::Layer, tessera::SelfAttention>(
      "self_attention",
      "self-attention, its heads cut over the tensor group, its positions over the context group");
  registrar.add<tessera::Layer, tessera::LatentAttention>(
      "latent_attention", "the same with keys and values from one short latent of each position");
}
