#include "task_dataset.hpp"

#include <algorithm>
#include <filesystem>

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/permutation.hpp"

namespace tessera {

std::vector<FieldInfo> label_fields() {
  return {{.name = "label", .length = 1},
          {.name = "label_mask", .dtype = DType::u8, .loss = "label", .length = 1}};
}

TaskDataset::TaskDataset(std::string_view task, u64 seed)
    : task_(task), shuffle_key_(random_key(seed, "data.shuffle")) {}

TaskDataset::TaskDataset(std::string_view task, std::shared_ptr<const TaskSamples> test)
    : TaskDataset(task, u64{0}) {
  set(SampleSet::test, "data", std::move(test));
}

// A sample of a file that is named twice would come twice, or train and validate.
void TaskDataset::require_different(const TaskKeys& keys) {
  std::vector<std::string> before;
  const auto look = [&](const char* key, const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
      const auto same = std::ranges::find_if(before, [&](const std::string& other) {
        std::error_code unknown;
        return path == other || std::filesystem::equivalent(path, other, unknown);
      });
      if (same != before.end()) fail_config("{}: {} is named twice", key, written_path(path));
      before.push_back(path);
    }
  };
  look("data.path", keys.path);
  look("data.validation_path", keys.validation_path);
}

void TaskDataset::set(SampleSet set,
                      std::string_view key,
                      std::shared_ptr<const TaskSamples> samples) {
  if (samples->size() == 0) fail_config("{}: there is no sample of {} in it", key, task_);
  fields_ = samples->fields();
  sets_[static_cast<std::size_t>(set)] = std::move(samples);
}

i64 TaskDataset::do_size(SampleSet set) const { return of(set) == nullptr ? 0 : of(set)->size(); }

i64 TaskDataset::number_of(SampleSet set, i64 ordinal) const {
  const i64 samples = do_size(set);
  require(ordinal >= 0 && samples > 0,
          "dataset {}: sample {} of a set of {} was asked for",
          task_,
          ordinal,
          samples);
  const i64 epoch = ordinal / samples, place = ordinal % samples;
  if (set != SampleSet::train) return place;
  return Permutation(samples, shuffle_key_, static_cast<u64>(epoch))(place);
}

void TaskDataset::do_read(SampleSet set, i64 ordinal, const SampleBuffers& out) const {
  require(out.fields.size() == fields_.size(),
          "dataset {}: {} fields, not {}",
          task_,
          fields_.size(),
          out.fields.size());
  of(set)->write(number_of(set, ordinal), out);
}

std::string TaskDataset::do_origin(SampleSet set, i64 ordinal) const {
  return of(set)->origin(number_of(set, ordinal));
}

std::string TaskDataset::do_fingerprint() const {
  std::string text = task_;
  constexpr const char* kNames[] = {"", " validation", " test"};
  for (const SampleSet set : {SampleSet::train, SampleSet::validation, SampleSet::test}) {
    if (of(set) == nullptr) continue;
    text += fmt::format("{}{} {:016x}: {} samples",
                        text == task_ ? "" : ",",
                        kNames[static_cast<std::size_t>(set)],
                        of(set)->hash(),
                        of(set)->size());
  }
  return text;
}

SetContent TaskDataset::do_content(SampleSet set) const {
  return of(set) == nullptr ? SetContent{} : of(set)->content();
}

}  // namespace tessera
