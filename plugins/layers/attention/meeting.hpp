#pragma once
#include <string>

#include "context_attention.hpp"
#include "tessera/build.hpp"
#include "tessera/model_fields.hpp"

namespace tessera {

/// Keys that attention layers share.
struct MeetingKeys {
  bool causal = true;
  Auto<i64> window;
  std::string context = "ring";

  /// All but `causal`, which not every layer has.
  template <class Config>
  static void describe(Schema<Config>& s) {
    s.field("window",
            &MeetingKeys::window,
            "the most keys that a position attends to, the last ones, its own included; \"none\": "
            "no limit",
            "none")
        .at_least(1)
        .at_most(kMostPositions)
        .structural()
        .also("sliding_window")
        .also("--window-size",
              "is window of [model.block.attention] here, its first number and the position "
              "itself");
    s.field("context",
            &MeetingKeys::context,
            "how context-parallel ranks bring queries and keys together")
        .one_of({"ring", "allgather", "all_to_all"})
        .megatron("--cp-comm-type");
  }
};

/// Where queries meet keys: on one rank or by one of the three methods, within what limits.
class Meeting {
 public:
  Meeting() = default;
  /// `scale`: of scores; `dropout`: of probabilities. Rejects the layer's keys where heads do not
  /// divide for the method.
  Meeting(const MeetingKeys& keys,
          const ops::AttentionShape& shape,
          double scale,
          double dropout,
          BuildContext& build);

  /// Is it right for rows that follow those in a cache?
  bool incremental() const { return spec_.causal && method_ == nullptr; }
  const ops::AttentionShape& shape() const { return shape_; }
  const AttentionSpec& spec() const { return spec_; }
  /// Packed projections of whole samples or their parts, [n, shape().features()], to results.
  Tensor attend(Context& cx, const Tensor& qkv, const Bundle& bundle) const;
  /// For a run over cx.cache: the same of queries [n, H · d] that meet keys and values
  /// [sequences, longest, K · (d + dv)].
  Tensor attend_kept(Context& cx,
                     const Tensor& queries,
                     const Tensor& kept,
                     const Bundle& bundle) const;

 private:
  void choose_method(const std::string& name, BuildContext& build);

  std::shared_ptr<const ContextNames> names_;
  ProcessGroup* context_ = nullptr;  ///< none: the mesh has no communicators, nothing will run
  Slot row_ids_;
  Slot first_, last_;  ///< of each position, where the data has them
  ops::AttentionShape shape_;
  AttentionSpec spec_;
  ContextMethod* method_ = nullptr;  ///< none: whole samples are here
};

}  // namespace tessera
