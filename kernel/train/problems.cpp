#include <optional>

#include "kernel/checkpoint/folders.hpp"
#include "kernel/model/chunk.hpp"
#include "kernel/train/setup.hpp"
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

bool build_model(const RunConfig& config,
                 ComponentMaker& maker,
                 const Model& model,
                 const BatchShape& batch,
                 const Mesh& mesh) {
  ModelParts parts(mesh);
  const BuildSettings settings{.mesh = &mesh,
                               .batch = batch,
                               .compute = precision_of(config.precision.compute),
                               .main = precision_of(config.precision.main),
                               .seed = config.run.seed,
                               .device = nullptr,
                               .maker = &maker};
  const Chunk chunk(model, 0, 0, static_cast<int>(model.layers().size()), settings, parts);
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
  if (layout) all.run([&] { return microbatches_of(config, maker, *layout); });
  all.run([&] { return make_schedule(config, maker); });
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
  const RankGenerator ranks(*layout);
  for (i64 rank = 0; rank < world; ++rank) {
    const Mesh mesh(ranks, rank);
    const bool distinct =
        mesh.first(Axis::context) && mesh.first(Axis::data) && mesh.first(Axis::pipeline);
    if (distinct) all.run([&] { return build_model(config, maker, **model, *batch, mesh); });
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
