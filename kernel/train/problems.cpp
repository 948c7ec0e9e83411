#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "kernel/checkpoint/folders.hpp"
#include "kernel/schedule/lower.hpp"
#include "kernel/schedule/verify.hpp"
#include "kernel/train/setup.hpp"
#include "kernel/train/survey.hpp"
#include "tessera/error.hpp"
#include "tessera/optimizer.hpp"

namespace tessera {

namespace {

// Runs checks one by one and keeps what each throws; a text that was seen is not repeated.
class ProblemList {
 public:
  template <class F>
  auto run(F&& check) -> std::optional<decltype(check())> {
    try {
      return check();
    } catch (const Error& error) {
      const std::string text = error.what();
      for (const std::string& known : problems_) {
        if (known == text) return std::nullopt;
      }
      problems_.push_back(text);
      return std::nullopt;
    }
  }
  std::vector<std::string> problems() && { return std::move(problems_); }

 private:
  std::vector<std::string> problems_;
};

void check_recompute(const RunConfig& config, const ComponentMaker& maker, const Survey& survey) {
  if (config.recompute.mode != "selective") return;
  if (config.recompute.scopes.empty()) {
    fail_config("{}: [recompute] mode = \"selective\" with no scopes recomputes nothing",
                maker.origin("recompute", "scopes"));
  }
  const std::vector<std::string> known = survey.block_scopes();
  for (const std::string& scope : config.recompute.scopes) {
    if (std::ranges::find(known, scope) != known.end()) continue;
    fail_config("{}: [recompute] scopes has \"{}\"; the model's blocks have {}",
                maker.origin("recompute", "scopes"),
                scope,
                fmt::join(known, ", "));
  }
}

StageMap place(const RunConfig& config,
               const ComponentMaker& maker,
               const RunSetup& setup,
               int ranks) {
  try {
    return map_stages(*setup.schedule, ranks, setup.model->layers(), config.placement);
  } catch (const ConfigError& error) {
    const PlacementSection& placement = config.placement;
    const std::string where = !placement.layout.empty() ? maker.origin("placement", "layout")
                              : placement.first         ? maker.origin("placement", "first")
                              : placement.last          ? maker.origin("placement", "last")
                                                        : maker.origin("parallel", "pipeline");
    fail_config("{}: {}", where, error.what());
  }
}

// Builds the whole model as one rank of the tensor group sees it, cuts it into stages and plays the
// plans of all of them, as far as earlier problems left what that needs.
bool check_model(const RunConfig& config,
                 ComponentMaker& maker,
                 const RunSetup& setup,
                 const Mesh& mesh) {
  const Survey survey(*setup.model, build_settings_of(config, maker, setup.batch, mesh, nullptr));
  if (!mesh.first(Axis::tensor)) return true;  // what follows is the same for the whole group
  check_recompute(config, maker, survey);
  if (setup.schedule == nullptr) return true;
  const auto ranks = static_cast<int>(mesh.size(Axis::pipeline));
  const StageMap map = place(config, maker, setup, ranks);
  if (setup.microbatches == 0) return true;
  for (const bool training : {true, false}) {
    const Pipeline pipeline(*setup.schedule,
                            shape_of(*setup.schedule, ranks, setup.microbatches, training));
    std::vector<Plan> plans;
    for (int rank = 0; rank < ranks; ++rank) {
      plans.push_back(
          lower(pipeline, rank, survey.phases_of_rank(map, rank, config.recompute), {}));
    }
    verify(plans);
  }
  return true;
}

// The checkpoint that is asked for by name.
std::optional<std::filesystem::path> find_resumed(const RunConfig& config,
                                                  const ComponentMaker& maker) {
  const std::string& resume = config.checkpoint.resume;
  if (resume == "auto" || resume == "none") return std::nullopt;
  try {
    return find_checkpoints(resume).front();
  } catch (const ConfigError& error) {
    fail_config("{}: [checkpoint] resume: {}", maker.origin("checkpoint", "resume"), error.what());
  }
}

}  // namespace

std::vector<std::string> find_problems(const RunConfig& config, ComponentMaker& maker, i64 world) {
  ProblemList all;
  const auto layout = all.run([&] { return layout_of(config, maker, world); });
  const auto microbatches =
      all.run([&] { return layout ? microbatches_of(config, maker, *layout) : i64{0}; });
  const auto schedule = all.run([&] { return make_schedule(config, maker); });
  all.run([&] {
    LrArguments arguments{config.run.steps};
    return maker.make(config.lr, arguments);
  });
  all.run([&] { return find_resumed(config, maker); });
  const auto sequence = all.run([&] { return sequence_length_of(config, maker); });
  if (!sequence) return std::move(all).problems();
  const auto dataset = all.run([&] { return make_dataset(config, maker, *sequence); });
  const auto model = all.run([&] {
    ModelArguments arguments{dataset ? (*dataset)->tokenizer().vocabulary() : 1};
    return maker.make(config.model, arguments);
  });
  const auto batch = all.run([&] { return batch_shape_of(config, maker, *sequence); });
  if (!layout || !model || !batch) return std::move(all).problems();
  const RunSetup setup{
      *layout, microbatches.value_or(0), *batch, nullptr, *model, schedule.value_or(nullptr)};
  const RankGenerator ranks(*layout);
  for (i64 rank = 0; rank < world; ++rank) {
    const Mesh mesh(ranks, rank);
    const bool distinct =
        mesh.first(Axis::context) && mesh.first(Axis::data) && mesh.first(Axis::pipeline);
    if (distinct) all.run([&] { return check_model(config, maker, setup, mesh); });
  }
  return std::move(all).problems();
}

void check_run(const RunConfig& config, ComponentMaker& maker, i64 world) {
  std::string text;
  for (const std::string& problem : find_problems(config, maker, world)) {
    text += (text.empty() ? "" : "\n") + problem;
  }
  if (!text.empty()) throw ConfigError(text);
}

}  // namespace tessera
