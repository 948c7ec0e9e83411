#include "kernel/planner/planned_data.hpp"

#include <algorithm>
#include <utility>

#include "kernel/model/chunk.hpp"
#include "kernel/model/data_inputs.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

// A field, and how many values of a sample are 1; all others are 0.
struct PlannedField {
  FieldInfo info;
  i64 ones = 0;
};

class PlannedDataset final : public Dataset {
 public:
  PlannedDataset(i64 sequence_length, std::vector<PlannedField> fields)
      : sequence_length_(sequence_length), fields_(std::move(fields)) {}
  std::vector<FieldInfo> do_fields() const override {
    std::vector<FieldInfo> fields;
    for (const PlannedField& field : fields_) fields.push_back(field.info);
    return fields;
  }
  i64 do_size(SampleSet) const override { return i64{1} << 40; }
  void do_read(SampleSet, i64, const SampleBuffers& out) const override {
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      const FieldInfo& info = fields_[i].info;
      auto* bytes = static_cast<u8*>(out.fields[i]);
      std::fill_n(
          bytes,
          values_of(info, {.micro = 1, .sequence = sequence_length_}) * dtype_size(info.dtype),
          u8{0});
      std::fill_n(bytes, fields_[i].ones, u8{1});
    }
  }
  std::string do_fingerprint() const override { return "none"; }

 private:
  i64 sequence_length_;
  std::vector<PlannedField> fields_;
};

// What models read of datasets that ship, beside tokens, targets and their mask. Positions are all
// 0, which every model knows.
const std::vector<FieldInfo>& usual_fields() {
  static const std::vector<FieldInfo> kFields = {{"positions", DType::i64},
                                                 {"segments", DType::i64},
                                                 {"answerable", DType::u8},
                                                 {"label", DType::i64, "", 1},
                                                 {"label_mask", DType::u8, "", 1},
                                                 {"answer", DType::i64, "", 2},
                                                 {"answer_mask", DType::u8, "", 2}};
  return kFields;
}

// The fields that the model reads, from building it for a dry rank.
std::vector<PlannedField> fields_of(const RunSetup& setup) {
  const Mesh mesh(RankGenerator(setup.layout), 0);
  ModelParts parts(mesh);
  const BuildSettings settings = build_settings_of(setup, mesh, nullptr);
  const int layers = static_cast<int>(setup.model->layers().size());
  const Chunk chunk(*setup.model, 0, 0, layers, settings, parts);
  std::vector<PlannedField> fields = {{{"tokens", DType::i64}}, {{"targets", DType::i64}}};
  for (const FieldInfo& field : usual_fields()) {
    if (std::ranges::find(parts.slots(), field.name) != parts.slots().end()) {
      fields.push_back({field, field.dtype == DType::u8 ? std::max<i64>(field.length, 1) : 0});
    }
  }
  bool first = true;
  for (const ModelParts::LossInfo& loss : parts.losses()) {
    if (!loss.mask.empty() || loss.weight != LossWeight::field) continue;
    const i64 ones = loss.most > 0 ? loss.most : setup.sequence_length;
    const std::string name = std::exchange(first, false) ? "loss_mask" : loss.name + "_mask";
    fields.push_back({{name, DType::u8, loss.name}, std::min(ones, setup.sequence_length)});
  }
  return fields;
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
      setup.dataset = std::make_shared<PlannedDataset>(setup.sequence_length, fields_of(setup));
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
