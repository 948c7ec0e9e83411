#pragma once
#include "angles.hpp"
#include "latent_heads.hpp"
#include "meeting.hpp"
#include "tessera/plugin.hpp"

namespace tessera {

/// Multi-head latent attention (DeepSeek-AI 2024, "DeepSeek-V2", §2.1): keys and values of all
/// heads are products with one short latent of each position, and so may queries be; some features
/// of a head turn with the position, and all heads share those of the key. Heads are cut over the
/// tensor group, latents are whole on every rank; positions are cut over the context group. Reads
/// and writes the slot "hidden" [n, hidden].
class LatentAttention final : public Layer {
 public:
  struct Config : MeetingKeys {
    i64 hidden = 0, heads = 0, kv_latent = 0, fixed_size = 0, rotary_size = 0;
    Auto<i64> q_latent, value_size, positions;
    i64 layers = 1;
    double dropout = 0, score_factor = 1, init_std = 0.02;
    Component<Rotary> rotary{"default", {}};
    Component<Module> q_down{"whole_linear", {}}, q_norm{"rmsnorm", {}}, q_up{"column_linear", {}};
    Component<Module> kv_down{"whole_linear", {}}, kv_norm{"rmsnorm", {}};
    Component<Module> kv_up{"column_linear", {}}, proj{"row_linear", {}};
    static void describe(Schema<Config>& s);
  };

  LatentAttention(const Config& config, BuildContext& build);
  std::vector<Phase> do_phases() override;

 private:
  /// What keys and values of a row are made of: the normalised latent [own rows, kv_latent], and
  /// the key's features that turn [rows, rotary], turned.
  struct Latents {
    Tensor kv, key;
  };
  Tensor queries(Context& cx, const Tensor& x) const;
  Latents latents(Context& cx, const Tensor& x, const Tensor& positions) const;
  Tensor attend(Context& cx, const Tensor& x, const Bundle& bundle) const;
  Tensor attend_kept(Context& cx, const Tensor& x, const Bundle& bundle) const;
  /// Turns the first features of the first `heads` heads.
  Tensor turned(Context& cx, Tensor x, const Tensor& positions, i64 heads, i64 head_size) const;

  TensorRegion region_;
  Slot hidden_, positions_;
  CacheSlot cache_;
  i64 kv_latent_;
  LatentHeads heads_;
  Angles angles_;
  Meeting meeting_;
  std::shared_ptr<Module> q_down_, q_norm_, q_up_, kv_down_, kv_norm_, kv_up_, proj_;
};

}  // namespace tessera
