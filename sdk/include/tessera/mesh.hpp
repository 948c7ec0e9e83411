#pragma once
#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/error.hpp"
#include "tessera/types.hpp"

namespace tessera {

class ProcessGroup;

/// The axes along which ranks are arranged. The first four decompose the dense part of a model,
/// expert_tensor, expert, expert_data and pipeline the experts (folding).
enum class Axis : u8 { tensor, context, data, pipeline, expert_tensor, expert, expert_data };
inline constexpr int kAxes = 7;
/// "tp", "cp", "dp", "pp", "etp", "ep", "edp".
TESSERA_API std::string_view axis_name(Axis axis);

/// Sizes of a layout. data and expert_data follow from the world size.
struct TESSERA_API Layout {
  i64 world = 1, tensor = 1, context = 1, pipeline = 1, expert = 1;
  i64 expert_tensor = 0;  ///< 0: the same as tensor
  std::string order = "tp-cp-ep-dp-pp";
};

/// A layout that no number of ranks has. `member` is that of Layout which is to be changed, as
/// "tensor" or "order"; of several sizes that do not go together, one that is larger than 1.
class TESSERA_API LayoutError : public ConfigError {
 public:
  LayoutError(std::string_view member, const std::string& text);
  ~LayoutError() override;
  const std::string& member() const { return member_; }

 private:
  std::string member_;
};

/// Which ranks form which groups: a pure function of the layout (Megatron-Core's RankGenerator).
/// The first axis named in the order varies fastest. Throws LayoutError, naming the numbers, when
/// the sizes do not divide, the order is not a permutation, or the pipeline groups of the dense and
/// the expert decomposition differ.
class TESSERA_API RankGenerator {
 public:
  explicit RankGenerator(Layout layout);
  const Layout& layout() const { return layout_; }
  /// Size of an axis; data = world / (tp·cp·pp), expert_data = world / (etp·ep·pp).
  i64 size(Axis axis) const;
  /// This rank's position along an axis.
  i64 coordinate(i64 rank, Axis axis) const;
  /// All groups over a set of axes of one decomposition: ranks that differ in these axes only.
  /// Groups and members are in the generator's order. Mixing tensor, context or data with expert
  /// axes is an Error; pipeline belongs to both.
  std::vector<std::vector<i64>> groups(std::span<const Axis> axes) const;
  /// "tp-dp", "ep", "etp-edp" …
  std::vector<std::vector<i64>> groups(std::string_view axes) const;

 private:
  struct Decomposition {
    std::vector<Axis> axes;  // fastest first
    std::vector<i64> sizes;
  };
  const Decomposition& decomposition(Axis axis) const;
  Layout layout_;
  Decomposition dense_, expert_;
};

/// This rank's place in the layout and its process groups. Groups are created once, for all ranks
/// in one global order, before anything else communicates. Layers take their groups while they are
/// built. Owned by the run, which keeps it until the model is gone; used by one rank.
class TESSERA_API Mesh {
 public:
  Mesh(RankGenerator generator, i64 rank);
  ~Mesh();
  i64 rank() const { return rank_; }
  i64 world_size() const { return generator_.layout().world; }
  i64 size(Axis axis) const { return generator_.size(axis); }
  i64 coordinate(Axis axis) const { return generator_.coordinate(rank_, axis); }
  const RankGenerator& ranks() const { return generator_; }
  /// The group along one axis. A mesh without communicators throws Error.
  ProcessGroup& group(Axis axis) const { return at(static_cast<int>(axis)); }
  /// The same; nullptr without communicators, as where layers are built and nothing runs.
  ProcessGroup* find_group(Axis axis) const { return groups_[static_cast<std::size_t>(axis)]; }
  /// Every rank.
  ProcessGroup& world() const { return at(kWorld); }
  /// The dp × cp group; gradients of dense parameters are summed over it.
  ProcessGroup& data_context() const { return at(kDataContext); }
  /// The tp × pp group, one model replica; gradient norms are summed over it.
  ProcessGroup& model() const { return at(kModel); }
  /// The tp × cp group, the ranks that share sequences, and the tp × cp × dp group, the ranks of a
  /// pipeline stage; nullptr without communicators.
  ProcessGroup* find_tensor_context() const { return groups_[kTensorContext]; }
  ProcessGroup* find_stage() const { return groups_[kStage]; }
  /// The etp × ep group: ranks of one stage that together hold each expert once.
  ProcessGroup& experts() const { return at(kExperts); }
  /// The same; nullptr without communicators.
  ProcessGroup* find_experts() const { return groups_[kExperts]; }
  /// True when this rank is the first of its group along `axis`.
  bool first(Axis axis) const { return coordinate(axis) == 0; }

  /// Names of the groups of a mesh: first those of the axes, then "dp-cp", "tp-pp", "tp-cp",
  /// "tp-cp-dp" (a pipeline stage), "etp-ep" and "world".
  static std::span<const std::string_view> group_names();
  /// Used by the kernel while it builds the mesh: each name once.
  void set_group(std::string_view name, std::shared_ptr<ProcessGroup> group);
  /// A group by its name; throws Error when there is none. Not for use in a step.
  ProcessGroup& named(std::string_view name) const;
  const std::vector<std::shared_ptr<ProcessGroup>>& all() const { return all_; }

 private:
  // Places of the groups beyond those of the axes.
  enum : int { kDataContext = kAxes, kModel, kTensorContext, kStage, kExperts, kWorld, kGroups };
  ProcessGroup& at(int group) const;
  static int index_of(std::string_view name);

  RankGenerator generator_;
  i64 rank_;
  std::array<ProcessGroup*, kGroups> groups_ = {};
  std::vector<std::shared_ptr<ProcessGroup>> all_;
};

}  // namespace tessera
