#include "latent_attention.hpp"

#include <cmath>
#include <utility>

#include "packed.hpp"

namespace tessera {

void LatentAttention::Config::describe(Schema<Config>& s) {
  model_fields::hidden(s);
  s.field("heads", &Config::heads, "heads")
      .from("model.heads")
      .at_least(1)
      .at_most(kMostFeatures)
      .structural()
      .megatron("--num-attention-heads");
  s.field("q_latent",
          &Config::q_latent,
          "features of the latent that a position's queries are made of; \"none\": they are a "
          "product with the hidden features",
          "none")
      .at_least(1)
      .at_most(kMostFeatures)
      .megatron("--q-lora-rank")
      .also("q_lora_rank");
  s.field("kv_latent",
          &Config::kv_latent,
          "features of the latent that a position's keys and values are made of")
      .required()
      .at_least(1)
      .at_most(kMostFeatures)
      .megatron("--kv-lora-rank")
      .also("kv_lora_rank");
  s.field(
       "fixed_size", &Config::fixed_size, "features of a head's queries and keys that do not turn")
      .required()
      .at_least(1)
      .at_most(kMostFeatures)
      .megatron("--qk-head-dim")
      .also("qk_nope_head_dim");
  s.field("rotary_size",
          &Config::rotary_size,
          "those that turn with the position; the heads share one key of them")
      .required()
      .at_least(1)
      .at_most(kMostFeatures)
      .megatron("--qk-pos-emb-head-dim")
      .also("qk_rope_head_dim");
  s.field("value_size", &Config::value_size, "features of a head's value; \"auto\": fixed_size")
      .at_least(1)
      .at_most(kMostFeatures)
      .megatron("--v-head-dim")
      .also("v_head_dim");
  s.field("positions",
          &Config::positions,
          "rows of the table of rotary angles; \"auto\": positions of a sample")
      .from("model.positions")
      .at_least(1)
      .at_most(kMostPositions);
  s.field("score_factor",
          &Config::score_factor,
          "scores are divided by the root of a head's size and multiplied by this")
      .above(0)
      .structural();
  model_fields::layers(s);
  model_fields::dropout(s, "of the attention probabilities");
  MeetingKeys::describe(s);
  model_fields::init_std(s);
  s.slot("rotary", &Config::rotary, "how positions turn the features that turn");
  s.slot("q_down", &Config::q_down, "hidden to the latent of queries; not without q_latent");
  s.slot("q_norm", &Config::q_norm, "of that latent; not without q_latent");
  s.slot("q_up",
         &Config::q_up,
         "latent, or hidden, to queries: of each head fixed_size features, "
         "then rotary_size");
  s.slot(
      "kv_down",
      &Config::kv_down,
      "hidden to the latent of keys and values, then the rotary_size features of the shared key");
  s.slot("kv_norm", &Config::kv_norm, "of that latent");
  s.slot("kv_up",
         &Config::kv_up,
         "latent to keys and values: of each head fixed_size features, then value_size");
  s.slot("proj", &Config::proj, "projection of the heads' results");
}

LatentAttention::LatentAttention(const Config& config, BuildContext& build)
    : region_(build.tensor_region()),
      hidden_(build.slot("hidden")),
      positions_(build.slot("positions")),
      cache_(build.cache_slot()),
      kv_latent_(config.kv_latent),
      heads_{.heads = build.divide(config.heads, "heads", "heads"),
             .fixed = config.fixed_size,
             .rotary = config.rotary_size,
             .value = config.value_size.value_or(config.fixed_size)} {
  const i64 size = heads_.head_size();
  angles_ = make_angles(config.rotary,
                        config.rotary_size,
                        "rotary_size",
                        config.positions.value_or(build.sequence_length()),
                        build);
  const auto linear = [&](std::string_view name,
                          const Component<Module>& component,
                          i64 in,
                          i64 out) {
    return build.child(name, component, {{"in", in}, {"out", out}, {"init_std", config.init_std}});
  };
  if (config.q_latent) {
    q_down_ = linear("q_down", config.q_down, config.hidden, *config.q_latent);
    q_norm_ = build.child("q_norm", config.q_norm, {{"hidden", *config.q_latent}});
  }
  q_up_ = linear("q_up", config.q_up, config.q_latent.value_or(config.hidden), config.heads * size);
  kv_down_ =
      linear("kv_down", config.kv_down, config.hidden, config.kv_latent + config.rotary_size);
  kv_norm_ = build.child("kv_norm", config.kv_norm, {{"hidden", config.kv_latent}});
  kv_up_ = linear(
      "kv_up", config.kv_up, config.kv_latent, config.heads * (config.fixed_size + heads_.value));
  const double scale = std::sqrt(2.0 * static_cast<double>(config.layers));
  proj_ = build.child("proj",
                      config.proj,
                      {{"in", config.heads * heads_.value},
                       {"out", config.hidden},
                       {"init_std", config.init_std / scale}});
  meeting_ = Meeting(config,
                     {.batch = build.batch().micro,
                      .sequence = build.batch().sequence,
                      .heads = heads_.heads,
                      .kv_heads = heads_.heads,
                      .head_dim = size,
                      .value_dim = heads_.value},
                     config.score_factor / std::sqrt(static_cast<double>(size)),
                     config.dropout,
                     build);
}

std::vector<Phase> LatentAttention::do_phases() {
  return {{.scope = "attn",
           .incremental = meeting_.incremental(),
           .run = [this](Context& cx, Bundle& b) {
             const Tensor x = std::exchange(b[hidden_], {});
             const Tensor result = cx.cache != nullptr ? attend_kept(cx, x, b) : attend(cx, x, b);
             b[hidden_] = (*proj_)(cx, result);
           }}};
}

Tensor LatentAttention::turned(
    Context& cx, Tensor x, const Tensor& positions, i64 heads, i64 head_size) const {
  return ops::rotary(cx,
                     std::move(x),
                     positions,
                     angles_.table->value,
                     {.heads = heads, .head_dim = head_size, .interleaved = angles_.interleaved});
}

Tensor LatentAttention::queries(Context& cx, const Tensor& x) const {
  if (q_down_ == nullptr) return (*q_up_)(cx, x);
  return (*q_up_)(cx, (*q_norm_)(cx, (*q_down_)(cx, x)));
}

LatentAttention::Latents LatentAttention::latents(Context& cx,
                                                  const Tensor& x,
                                                  const Tensor& positions) const {
  std::vector<Tensor> parts = ops::split(cx, (*kv_down_)(cx, x), {kv_latent_, heads_.rotary});
  // The ranks' heads share it: their gradients are summed where it enters the region.
  Tensor key = region_.enter(cx, std::exchange(parts[1], {}));
  return {(*kv_norm_)(cx, parts[0]), turned(cx, std::move(key), positions, 1, heads_.rotary)};
}

Tensor LatentAttention::attend(Context& cx, const Tensor& x, const Bundle& bundle) const {
  const Tensor q = queries(cx, x);
  const Tensor& positions = bundle[positions_];
  const Latents from = latents(cx, x, positions);
  Tensor packed = pack_latent_heads(cx, heads_, q, (*kv_up_)(cx, from.kv), from.key);
  packed = turned(cx, std::exchange(packed, {}), positions, heads_.heads, heads_.head_size());
  return meeting_.attend(cx, packed, bundle);
}

Tensor LatentAttention::attend_kept(Context& cx, const Tensor& x, const Bundle& bundle) const {
  const Tensor& positions = bundle[positions_];
  Tensor q = pack_latent_queries(cx, heads_, queries(cx, x));
  q = turned(cx, std::exchange(q, {}), positions, heads_.heads, heads_.head_size());
  const Latents added = latents(cx, x, positions);
  const Tensor kept = cx.cache->extend(cx, cache_, ops::join(cx, {added.kv, added.key}));
  const i64 rows = kept.dim(0) * kept.dim(1);
  const auto dense = [&](i64 first, i64 features) {
    Tensor part = cx.empty({kept.dim(0), kept.dim(1), features}, kept.dtype());
    copy(cx, kept.slice(2, first, features).arg(), part.arg());
    return part.view({rows, features});
  };
  const Tensor kv = (*kv_up_)(cx, dense(0, kv_latent_));
  const Tensor keys = pack_latent_keys(cx, heads_, kv, dense(kv_latent_, heads_.rotary));
  return meeting_.attend_kept(cx, q, keys.view({kept.dim(0), kept.dim(1), keys.dim(1)}), bundle);
}

}  // namespace tessera
