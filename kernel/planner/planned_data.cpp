#include "kernel/planner/planned_data.hpp"

#include <algorithm>
#include <utility>

#include "kernel/model/chunk.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

class PlannedDataset final : public Dataset {
 public:
  PlannedDataset(i64 sequence_length, const std::vector<std::string>& losses)
      : sequence_length_(sequence_length),
        fields_{{"tokens", DType::i64, ""}, {"targets", DType::i64, ""}} {
    for (const std::string& loss : losses) {
      const bool first = fields_.back().loss.empty();
      fields_.push_back({first ? "loss_mask" : loss + "_mask", DType::u8, loss});
    }
  }
  std::vector<FieldInfo> do_fields() const override { return fields_; }
  i64 do_size(SampleSet) const override { return i64{1} << 40; }
  void do_read(SampleSet, i64, const SampleBuffers& out) const override {
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      auto* bytes = static_cast<u8*>(out.fields[i]);
      const u8 value = fields_[i].loss.empty() ? 0 : 1;
      std::fill_n(bytes, sequence_length_ * dtype_size(fields_[i].dtype), value);
    }
  }
  std::string do_fingerprint() const override { return "none"; }

 private:
  i64 sequence_length_;
  std::vector<FieldInfo> fields_;
};

// The loss terms of the model that the data has to weight, from building it for a dry rank.
std::vector<std::string> losses_of(const RunSetup& setup) {
  const Mesh mesh(RankGenerator(setup.layout), 0);
  ModelParts parts(mesh);
  const BuildSettings settings = build_settings_of(setup, mesh, nullptr);
  const int layers = static_cast<int>(setup.model->layers().size());
  const Chunk chunk(*setup.model, 0, 0, layers, settings, parts);
  std::vector<std::string> names;
  for (const ModelParts::LossInfo& loss : parts.losses()) {
    if (loss.mask.empty()) names.push_back(loss.name);
  }
  return names;
}

}  // namespace

RunSetup derive_planned_setup(
    const Resolved& config, const PluginHost& plugins, i64 world, std::string& note, DataUse use) {
  ProblemList problems;
  std::string why;
  RunSetup setup = derive_setup(config, plugins, world, use, problems, &why);
  problems.throw_all();
  if (setup.dataset != nullptr) return setup;
  ProblemList without_data;
  if (!why.empty()) derive_model(setup, without_data);
  if (without_data.empty()) {
    without_data.run([&] {
      setup.dataset = std::make_shared<PlannedDataset>(setup.sequence_length, losses_of(setup));
      setup.fields = setup.dataset->fields();
      return true;
    });
  }
  if (!without_data.empty()) {
    if (why.empty()) without_data.throw_all();
    problems.add(why);
    problems.add("and without its data:");
    problems.add(without_data);
    problems.throw_all();
  }
  if (why.empty()) return setup;
  note = fmt::format("planned without the data, each sample whole ({})", why);
  return setup;
}

}  // namespace tessera
