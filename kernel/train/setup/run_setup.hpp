#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernel/config/hardware.hpp"
#include "kernel/config/resolve.hpp"
#include "kernel/model/placement.hpp"
#include "kernel/train/setup/host_maker.hpp"
#include "kernel/train/setup/problem_list.hpp"
#include "tessera/base/parameter_memory.hpp"
#include "tessera/data.hpp"
#include "tessera/evaluation.hpp"
#include "tessera/graph.hpp"
#include "tessera/optimizer.hpp"

namespace tessera {

/// Everything that follows from a configuration and a world size alone: the same on every rank,
/// derived once, without a device. Copies share the components.
struct RunSetup {
  const RunConfig* config = nullptr;       ///< outlives the setup
  std::shared_ptr<const ConfigTree> tree;  ///< of the same
  SlotTables slots;                        ///< of the same
  std::optional<StoredParameters> stored;  ///< of the same
  /// Resolves another run's configuration, which a checkpoint has as text, with the plugins of this
  /// run. Throws ConfigError where these do not take it.
  std::function<Resolved(const std::string& text)> resolve;
  std::shared_ptr<ComponentMaker> maker;
  Layout layout;
  i64 microbatches = 1;  ///< of one data-parallel rank in a step
  i64 sequence_length = 1;
  i64 validation_samples = 0;  ///< of each validation; 0: none is made
  BatchShape batch;
  std::optional<Hardware> hardware;  ///< run.hardware; only of a run (DataUse::required)
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const Dataset> dataset;  ///< empty with DataUse::none
  std::vector<FieldInfo> fields;           ///< the model's inputs: those of the dataset
  /// By the name of their table; empty with DataUse::none. With DataUse::evaluation only
  /// kCommandEvaluation.
  std::vector<std::pair<std::string, std::shared_ptr<const EvaluationTask>>> evaluations;
  std::shared_ptr<Model> model;
  std::shared_ptr<PipelineSchedule> schedule;
  std::shared_ptr<LrSchedule> lr;
  std::shared_ptr<GraphPolicy> graphs;
  StageMap stages;
  bool sharded = false;    ///< each replica updates its shard of the parameters only
  bool whole = false;      ///< shards are whole parameters, because the rule has to see them whole
  bool can_build = false;  ///< no problem keeps a rank from building its layers
  bool can_step = false;   ///< nor from a training step over absent hardware

  BucketRules bucket_rules(const Mesh& mesh) const;
};

/// What a setup needs of [data] and [tokenizer].
enum class DataUse : u8 {
  required,
  kept,      ///< the same of a run that starts: its dataset may keep files in the run's folder
  optional,  ///< where they cannot be opened, the members stay empty and `data_problem` says why
  optional_tokenizer,  ///< the same for a tokenizer, and no dataset is opened
  none,                ///< text generation: a tokenizer, no dataset
  embedding,           ///< the same, and texts that are embedded (EmbeddedTexts)
  evaluation,  ///< the same, and what kCommandEvaluation measures: samples of its own, or texts,
               ///< which are tokens, targets and their mask
};
/// The table [evaluations.NAME] of the command `tessera eval`.
inline constexpr std::string_view kCommandEvaluation = "of_this_command";

/// Derives as much as earlier problems and doubtful sections leave possible and adds every problem
/// to the list, with file, line and key. `data_problem` is set where `use` is optional.
RunSetup derive_setup(const Resolved& config,
                      const PluginHost& plugins,
                      i64 world,
                      DataUse use,
                      ProblemList& problems,
                      std::string* data_problem = nullptr);
/// The same for a run: throws one ConfigError with all problems.
RunSetup derive_setup(const Resolved& config,
                      const PluginHost& plugins,
                      i64 world,
                      DataUse use = DataUse::required);

/// Completes a setup whose data is optional, once tokenizer and dataset are known or given up:
/// makes the model and cuts it into stages.
void derive_model(RunSetup& setup, ProblemList& problems);

/// Ranks that the configuration asks for: comm.ranks, or the product of the layout.
i64 world_size(const RunConfig& config);
/// The layout of a world of this size. Throws ConfigError with file, line, key and numbers.
Layout layout_of(const RunConfig& config, const ComponentMaker& maker, i64 world);
/// What follows the sizes of a layout in a line for people: ", experts over 4, each expert over 2".
/// Empty where every rank has all experts, and each of them as the dense layers are cut.
std::string experts_text(const Layout& layout);

/// What the model of one rank is built with.
BuildSettings build_settings_of(const RunSetup& setup, const Mesh& mesh, const Device* device);

}  // namespace tessera
