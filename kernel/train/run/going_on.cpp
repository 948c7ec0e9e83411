#include "kernel/train/run/going_on.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <variant>

#include "kernel/config/config.hpp"
#include "kernel/config/curve_keys.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;

// Checkpoints may lie apart from the other files of their run.
bool same_run(const Checkpoints::Loaded& from, const RunConfig& config) {
  std::error_code error;
  if (!fs::equivalent(from.folder.parent_path(), config.checkpoint.out, error)) return false;
  if (within(config.checkpoint.out, config.run.out)) return true;
  try {
    const fs::path out = Config::stored(from.info.config, "the checkpoint").resolve_path("run.out");
    return fs::equivalent(out, config.run.out, error);
  } catch (const ConfigError&) {
    return false;
  }
}

// A curve is finished with the keys that it was trained with. Who names the checkpoint to go on
// from knows that it is there.
void require_same_curve(const GoingOn& run, const RunConfig& config) {
  const i64 step = run.from.info.step;
  const bool finished = run.over || step >= run.since.steps.value_or(step + 1);
  if (!finished || (!run.over && config.checkpoint.resume != "auto")) return;
  std::vector<Difference> shaping;
  std::ranges::copy_if(run.since.keys, std::back_inserter(shaping), [](const Difference& key) {
    return !key.derived && shapes_curve(key);
  });
  if (shaping.empty()) return;
  const std::string folder = run.from.folder.string();
  fail_config(
      "{}: this run is finished, at step {}, and was trained with other keys:{}\n  set run.out for "
      "a run of its own (checkpoint.init_from = \"{}\" begins with its parameters, where they "
      "fit), "
      "or run.steps above {} and checkpoint.resume = \"{}\" to go on with the keys of now, where "
      "its tensors fit",
      config.run.out,
      step,
      indented(changes(shaping)),
      folder,
      step,
      folder);
}

// The sequence length of a stored configuration; none: this version does not know it.
std::optional<i64> sequence_length_in(const std::string& stored) {
  try {
    const Config config = Config::stored(stored, "the checkpoint");
    const auto found = config.tree().entries().find("batch.sequence_length");
    if (found == config.tree().entries().end() || !found->second.value) return std::nullopt;
    const i64* length = std::get_if<i64>(&found->second.value->data);
    return length != nullptr ? std::optional(*length) : std::nullopt;
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

constexpr std::string_view kAnew =
    "set checkpoint.resume = \"none\" and another run.out to start anew";

void require_same_data(const Checkpoints::Loaded& loaded, const RunSetup& setup) {
  const CheckpointInfo& info = loaded.info;
  const RunConfig& config = *setup.config;
  const std::string from = loaded.folder.string();
  const std::string data = setup.dataset->fingerprint();
  if (info.data != data) {
    fail_config("{} was made with other data: {} there, {} here; {}",
                from,
                quote(info.data, 400),
                quote(data, 400),
                kAnew);
  }
  const i64 length = setup.sequence_length;
  if (const auto stored = sequence_length_in(info.config); stored && *stored != length) {
    fail_config(
        "{} was made with batch.sequence_length = {}, not {}: that cuts the data into other "
        "samples; {}, with checkpoint.init_from = \"{}\" to keep the weights",
        from,
        *stored,
        length,
        kAnew,
        from);
  }
  if (info.samples != info.step * config.batch.global) {
    fail_config("{} has seen {} samples in {} steps, which is not batch.global = {} a step; {}",
                from,
                info.samples,
                info.step,
                config.batch.global,
                kAnew);
  }
}

}  // namespace

bool within(const fs::path& path, const fs::path& folder) {
  const fs::path from = fs::weakly_canonical(path).lexically_relative(fs::weakly_canonical(folder));
  return !from.empty() && *from.begin() != "..";
}

GoingOn going_on(const Checkpoints::Loaded& from, const RunSetup& setup) {
  const RunConfig& config = *setup.config;
  return {from,
          changes_since(from.info, setup),
          compare_meaning(from.info, setup),
          same_run(from, config),
          from.info.step >= config.run.steps};
}

void require_may_go_on(const GoingOn& run, const RunSetup& setup) {
  const CheckpointInfo& info = run.from.info;
  const RunConfig& config = *setup.config;
  const std::string from = run.from.folder.string();
  if (run.same_run) require_same_curve(run, config);
  if (info.seed != config.run.seed) {
    fail_config(
        "{} was made with run.seed = {}, not {}; {}", from, info.seed, config.run.seed, kAnew);
  }
  if (!run.meaning.same()) {
    fail_config(
        "{} was made with another model or tokenizer, so its parameters mean something else here:{}"
        "\n  {}, with checkpoint.init_from = \"{}\" and checkpoint.init_changes to begin with its "
        "parameters all the same",
        from,
        run.meaning.text(),
        kAnew,
        from);
  }
  require_same_data(run.from, setup);
  if (info.step > config.run.steps) {
    fail_config("{} is beyond the end of this run: run.steps = {}; set at least {}, or {}",
                from,
                config.run.steps,
                info.step,
                "another run.out for a run of its own");
  }
}

void fail_misfit(const GoingOn& run, std::string_view misfit) {
  fail_config(
      "{}: this configuration has other tensors, so training cannot go on from there; {}\n  take "
      "back what changed, or set run.out for a run of its own\n{}",
      run.from.folder.string(),
      told(run.since),
      misfit);
}

}  // namespace tessera
