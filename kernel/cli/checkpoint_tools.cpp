#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "kernel/checkpoint/compare.hpp"
#include "kernel/checkpoint/export.hpp"
#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/stored_config.hpp"
#include "kernel/checkpoint/stored_reader.hpp"
#include "kernel/cli/commands.hpp"
#include "kernel/cli/show.hpp"
#include "kernel/config/dump.hpp"
#include "kernel/launch/environment.hpp"
#include "kernel/launch/open_plugins.hpp"
#include "kernel/planner/planned_data.hpp"
#include "kernel/system/limits.hpp"
#include "kernel/train/run/reshard.hpp"
#include "tessera/error.hpp"
#include "tessera/io/json.hpp"
#include "tessera/io/size_text.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;

// Makes a text of a checkpoint, which somebody else may have written, fit to be shown.
std::string shown(std::string_view text) { return written_plain(text, 400); }

void print_comparison(const CheckpointComparison& found, double tolerance) {
  for (const std::string& line : found.counts) show("{}\n", shown(line));
  for (const TensorDifference& tensor : found.differing) {
    if (!tensor.shapes.empty()) {
      show("{}: {}\n", shown(tensor.name), tensor.shapes);
    } else {
      show("{}: {} of {} elements differ, by at most {:.3g}, {:.3g} of its magnitude\n",
           shown(tensor.name),
           tensor.differing,
           tensor.elements,
           tensor.most,
           tensor.relative());
    }
  }
  for (const std::string& name : found.missing) show("{}: only in the first\n", shown(name));
  for (const std::string& name : found.extra) show("{}: only in the second\n", shown(name));
  const std::string within = fmt::format(" {} within {:g},", found.within.size(), tolerance);
  show("{} tensors are equal,{} {} differ, {} only in the first, {} only in the second\n",
       found.equal,
       tolerance > 0 ? within : "",
       found.differing.size(),
       found.missing.size(),
       found.extra.size());
  if (const TensorDifference* largest = found.largest()) {
    show("the largest difference is {:.3g}, {:.3g} of the tensor's magnitude, in {}\n",
         largest->most,
         largest->relative(),
         shown(largest->name));
  }
}

Json json_of(const TensorDifference& tensor) {
  Json json;
  json.add("name", tensor.name);
  if (!tensor.shapes.empty()) return json.add("shapes", tensor.shapes);
  return json.add("elements", tensor.elements)
      .add("differing", tensor.differing)
      .add("most", tensor.most)
      .add("relative", tensor.relative());
}

Json json_of(const CheckpointComparison& found) {
  Json out;
  out.add("same", found.same());
  out.add("counts", Json::array(found.counts));
  out.add("equal", found.equal);
  const auto list = [](const auto& tensors) {
    return Json::array(tensors, [](const TensorDifference& tensor) { return json_of(tensor); });
  };
  out.add("within", list(found.within));
  out.add("differing", list(found.differing));
  out.add("missing", Json::array(found.missing));
  out.add("extra", Json::array(found.extra));
  if (const TensorDifference* largest = found.largest()) out.add("largest", json_of(*largest));
  return out;
}

}  // namespace

int run_checkpoint_diff(const CheckpointDiffOptions& options) {
  const fs::path a = newest_checkpoint(options.a), b = newest_checkpoint(options.b);
  const CheckpointComparison found = compare_checkpoints(a, b, options.tolerance);
  if (options.json) {
    show_exact(json_of(found).text() + "\n");
  } else {
    show("{} and {}\n", a.string(), b.string());
    print_comparison(found, options.tolerance);
  }
  return found.same() ? 0 : 1;
}

int run_checkpoint_export(const CheckpointExportOptions& options) {
  const fs::path folder = newest_checkpoint(options.folder);
  std::optional<DType> dtype;
  if (!options.dtype.empty()) dtype = parse_dtype(options.dtype);
  const Exported exported = export_parameters(folder, options.file, dtype);
  show("{}: {} parameters of {}, {}\n",
       options.file,
       exported.tensors,
       folder.string(),
       size_text(static_cast<double>(exported.bytes)));
  return 0;
}

int run_checkpoint_reshard(const CheckpointReshardOptions& options) {
  const fs::path folder = newest_checkpoint(options.folder);
  const CheckpointIndex index = read_index(folder);
  const Config config = stored_config(folder, index, options.sets);
  const std::shared_ptr<PluginHost> plugins = open_plugins(options.path, config);
  const Resolved resolved = resolve_stored(folder, index, config, *plugins);
  const i64 world = world_size(resolved.run);
  std::string note;  // where the tokenizer is elsewhere; only the form of samples matters here
  const RunSetup setup =
      derive_planned_setup(resolved, *plugins, world, note, DataUse::optional_tokenizer);
  const int threads = rank_threads(resolved.run.device, 1);
  require_threads(threads);
  const fs::path written = reshard(folder, options.out, setup, dump(resolved), threads);
  show(
      "{}: as {} {} would have saved it\n", written.string(), world, world == 1 ? "rank" : "ranks");
  return 0;
}

}  // namespace tessera
