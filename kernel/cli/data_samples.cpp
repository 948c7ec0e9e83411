#include <fmt/format.h>

#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/index.hpp"
#include "kernel/checkpoint/stored_config.hpp"
#include "kernel/cli/data_samples.hpp"
#include "kernel/cli/show.hpp"
#include "kernel/launch/open_plugins.hpp"
#include "kernel/train/setup/run_setup.hpp"
#include "tessera/error.hpp"
#include "tessera/io/json.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

// Step n reads ordinals from (n - 1) · batch.global on.
void show_samples(const DataShowOptions& options) {
  const std::filesystem::path folder = newest_checkpoint(options.run);
  const CheckpointIndex index = read_index(folder);
  const Config config = stored_config(folder, index, options.sets);
  const auto plugins = open_plugins(options.path, config);
  const Resolved resolved = resolve_stored(folder, index, config, *plugins);
  const RunSetup setup = derive_setup(resolved, *plugins, world_size(resolved.run));
  const i64 steps = resolved.run.run.steps, count = resolved.run.batch.global;
  if (options.step > steps) {
    fail_config("--step {}: the run in {} has {} steps", options.step, options.run, steps);
  }
  for (i64 ordinal = (options.step - 1) * count; ordinal < options.step * count; ++ordinal) {
    const std::string from = setup.dataset->origin(SampleSet::train, ordinal);
    if (options.json) {
      show_exact(Json().add("sample", ordinal).add("from", from).text() + "\n");
    } else {
      show("sample {}  {}\n", ordinal, from.empty() ? "the dataset does not say" : from);
    }
  }
}

}  // namespace tessera
