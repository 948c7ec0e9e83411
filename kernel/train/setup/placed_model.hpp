#pragma once
#include <string>
#include <utility>
#include <vector>

#include "kernel/comm/rank.hpp"
#include "kernel/model/prepared_weights.hpp"
#include "kernel/schedule/lower.hpp"
#include "kernel/train/setup/outlines.hpp"
#include "kernel/train/setup/run_setup.hpp"
#include "tessera/base/parameter_memory.hpp"

namespace tessera {

struct PlaceOptions {
  bool locate_errors = false;    ///< of parameters: BuildSettings::locate_errors
  bool forward_only = false;     ///< no gradients will be asked for
  Outlines* outlines = nullptr;  ///< shared with other ranks; without it the rank makes its own
};

/// The part of the model that lives on one rank, with what the rank has to know of the rest.
/// Parameters are allocated; nothing is initialised.
class PlacedModel {
 public:
  /// Both outlive it. Throws ConfigError for what does not fit.
  PlacedModel(const Rank& rank, const RunSetup& setup, PlaceOptions options = {});
  PlacedModel(const PlacedModel&) = delete;
  PlacedModel& operator=(const PlacedModel&) = delete;

  const Rank& rank() const { return rank_; }
  const RunSetup& setup() const { return setup_; }
  ModelParts& parts() { return parts_; }
  const ModelParts& parts() const { return parts_; }
  std::vector<Chunk>& chunks() { return chunks_; }
  const std::vector<Chunk>& chunks() const { return chunks_; }
  /// Where the parameters lie. Values are allocated; `GradientSync` allocates gradients.
  ParameterMemory& memory() { return memory_; }
  const ParameterMemory& memory() const { return memory_; }
  /// Weights as products read them, where [precision] prepare_weights asks for it.
  PreparedWeights& prepared() { return prepared_; }
  /// What crosses after each stage but the last.
  const std::vector<Boundary>& boundaries() const { return boundaries_; }
  /// All parameters of the model, those of other stages too.
  const std::vector<ParameterName>& parameter_names() const { return parameter_names_; }
  /// Saved buffers of the model, alike.
  const std::vector<std::string>& buffer_names() const { return buffer_names_; }
  /// Elements of the whole model's parameters, each logical one once.
  i64 parameter_elements() const { return parameter_elements_; }
  /// Elements of parameters that one token uses: fewer where the model has experts.
  i64 active_elements() const { return active_elements_; }

  /// Writes the initial values of a run with this seed.
  void initialize(u64 seed);
  /// Call once main values and saved buffers were read from a checkpoint: writes what follows from
  /// them, and the initial values of all other buffers.
  void complete_loaded();
  /// This rank's plan of a step or of a forward-only pass.
  Plan plan(int microbatches, bool training) const;
  /// The same from a pipeline that was played before, once for many ranks.
  Plan plan(const Pipeline& pipeline) const;

 private:
  PlacedModel(const Rank& rank,
              const RunSetup& setup,
              PlaceOptions options,
              const std::shared_ptr<const OtherStages>& other_stages);
  std::vector<PhaseInfo> phases() const;
  void check_places(const Plan& plan) const;

  const Rank& rank_;
  const RunSetup& setup_;
  ModelParts parts_;
  ParameterMemory memory_;
  PreparedWeights prepared_;
  std::vector<Boundary> boundaries_;
  std::vector<Chunk> chunks_;
  std::vector<ParameterName> parameter_names_;
  std::vector<std::string> buffer_names_;
  i64 parameter_elements_ = 0, active_elements_ = 0;
};

}  // namespace tessera
