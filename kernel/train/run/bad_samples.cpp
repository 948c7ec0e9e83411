#include "kernel/train/run/bad_samples.hpp"

#include <cmath>
#include <filesystem>
#include <optional>

#include "kernel/train/run/row_scores.hpp"
#include "tessera/io/json.hpp"
#include "tessera/io/output_file.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

// The mask of a sample's tokens, of the first loss that has one.
std::vector<u8> mask_of(const Dataset& dataset, i64 ordinal, i64 length) {
  std::vector<std::vector<std::byte>> memory;
  SampleBuffers buffers;
  std::optional<std::size_t> mask;
  const std::vector<FieldInfo> fields = dataset.fields();
  for (const FieldInfo& field : fields) {
    if (!mask && !field.loss.empty()) mask = memory.size();
    const i64 values = values_of(field, {.micro = 1, .sequence = length});
    const auto bytes = static_cast<std::size_t>(values * dtype_size(field.dtype));
    buffers.fields.push_back(memory.emplace_back(bytes).data());
  }
  dataset.read(SampleSet::train, ordinal, buffers);
  std::vector<u8> found;
  for (const std::byte value : memory.at(mask.value())) found.push_back(std::to_integer<u8>(value));
  return found;
}

}  // namespace

std::vector<double> BadSamples::losses(i64 first, i64 count) const {
  const RunSetup& setup = training_.setup();
  RowScores scores(training_.model, *setup.dataset);
  std::vector<double> sums(static_cast<std::size_t>(count)), weights(sums);
  std::vector<u8> mask;
  i64 masked = -1;
  scores.for_each_row(
      SampleSet::train, first, count, [&](i64 sample, i64 row, double sum, double target) {
        if (sample != masked) {
          mask = mask_of(*setup.dataset, first + sample, setup.sequence_length);
          masked = sample;
        }
        if (mask.at(static_cast<std::size_t>(row)) == 0) return;
        sums[static_cast<std::size_t>(sample)] += std::log(sum) - target;
        weights[static_cast<std::size_t>(sample)] += 1;
      });
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] /= weights[i];
  return sums;
}

void BadSamples::tell() {
  if (waiting_.empty()) return;
  training_.step.gather_parameters();
  const Dataset& dataset = *training_.setup().dataset;
  const i64 count = training_.config().batch.global;
  for (const BadStep& bad : waiting_) {
    const i64 first = (bad.step - 1) * count;
    const std::vector<double> found = losses(first, count);
    if (!training_.root()) continue;
    Json samples = Json::array();
    for (i64 i = 0; i < count; ++i) {
      samples.push(Json()
                       .add("sample", first + i)
                       .add("loss", found[static_cast<std::size_t>(i)])
                       .add("from", dataset.origin(SampleSet::train, first + i)));
    }
    const auto file = std::filesystem::path(training_.config().run.out) / "bad-steps.jsonl";
    const Json line = Json().add("step", bad.step).add("why", bad.why).add("samples", samples);
    try {
      OutputFile(file, OutputFile::Start::append).write(line.text() + "\n");
    } catch (const Error& error) {
      log_warning("the samples of step {} are told nowhere: {}", bad.step, error.what());
    }
  }
  waiting_.clear();
}

}  // namespace tessera
