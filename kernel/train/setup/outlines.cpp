#include "kernel/train/setup/outlines.hpp"

#include "kernel/dry/dry_rank.hpp"
#include "kernel/train/setup/run_setup.hpp"
#include "tessera/base/parameter_memory.hpp"

namespace tessera {

std::vector<std::string> saved_buffers(const ModelParts& parts) {
  std::vector<std::string> names;
  for (const auto& buffer : parts.buffers()) {
    if (buffer->saved) names.push_back(buffer->name);
  }
  return names;
}

std::shared_ptr<const OtherStages> Outlines::of(const Rank& rank) {
  if (setup_.stages.last() == 0) return std::make_shared<const OtherStages>();
  const std::lock_guard lock(mutex_);  // also while one is made: others wait for it
  auto& found = done_[rank.mesh->group(Axis::pipeline).members().front()];
  if (found == nullptr) found = std::make_shared<const OtherStages>(outline(rank));
  return found;
}

OtherStages Outlines::outline(const Rank& rank) const {
  const Rank dry = dry_rank(setup_.layout, rank.mesh->rank(), rank.device);
  BuildSettings settings = build_settings_of(setup_, *dry.mesh, dry.device.get());
  settings.locate_errors = locate_errors_;
  Outline outline(*setup_.model, settings);
  const ModelParts& whole = outline.parts();
  OtherStages found;
  found.losses = whole.losses();
  found.metrics = whole.metrics();
  found.counts = whole.counts();
  found.parameter_names = whole.parameter_names();
  found.buffer_names = saved_buffers(whole);
  found.parameter_elements = whole.logical_elements();
  found.active_elements = whole.active_elements();
  for (const ModelParts::Entry& entry : whole.parameters()) {
    found.holders[entry.parameter->name] = Outline::holders(entry, setup_.stages);
  }
  ParameterMemory(whole.parameter_list(), setup_.bucket_rules(*dry.mesh))
      .allocate_values(*dry.device, settings.main, settings.compute);
  outline.parts().allocate_buffers(*dry.device);
  // Where the data was refused the layers are only built (dry_run.cpp): they have nothing to read.
  if (!setup_.fields.empty()) {
    found.boundaries =
        outline.boundaries(dry.context(), setup_.stages, setup_.fields, setup_.batch);
  }
  return found;
}

}  // namespace tessera
