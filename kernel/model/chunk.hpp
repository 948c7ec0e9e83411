#pragma once
#include <memory>
#include <vector>

#include "kernel/model/build_context.hpp"
#include "tessera/model.hpp"
#include "tessera/plan.hpp"

namespace tessera {

inline constexpr int kNoLayer = -1;
/// The phase of a stage without layers: it passes on what it gets.
PhaseInfo passing_info(int chunk);

/// A run of the model's layers that lives on one rank, with its phases in order.
class Chunk {
 public:
  /// Builds layers [first, last) of the model into `parts`.
  Chunk(const Model& model,
        int index,
        int first,
        int last,
        const BuildSettings& settings,
        ModelParts& parts);
  int index() const { return index_; }
  const std::vector<Phase>& phases() const { return phases_; }
  /// As the plan sees them; layer counts within the model.
  const std::vector<PhaseInfo>& infos() const { return infos_; }
  void end_step(Context& cx);

 private:
  int index_;
  std::vector<std::shared_ptr<Layer>> layers_;
  std::vector<Phase> phases_;
  std::vector<PhaseInfo> infos_;
};

}  // namespace tessera
