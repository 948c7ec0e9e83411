#pragma once
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/data.hpp"

namespace tessera {

/// The samples of a set, in the order of its files. Thread-safe.
class TaskSamples {
 public:
  virtual ~TaskSamples() = default;
  virtual i64 size() const = 0;
  virtual void write(i64 number, const SampleBuffers& out) const = 0;
  virtual std::string origin(i64 number) const = 0;
  virtual SetContent content() const = 0;
  /// Of all that they are made of.
  virtual u64 hash() const = 0;
  virtual std::vector<FieldInfo> fields() const = 0;
};

/// The keys of every dataset for a task.
struct TaskKeys {
  std::vector<std::string> path, validation_path;
};
template <class C>
void describe_paths(Schema<C>& s, const std::string& files) {
  s.field("path", &C::path, files + ". Identical on all ranks' machines")
      .is_path()
      .required()
      .megatron("--train-data");
  s.field("validation_path",
          &C::validation_path,
          "the same for the validation set; without it there is none")
      .is_path()
      .megatron("--valid-data");
}

/// Where an evaluation takes a key from, and what its text says of the default that it has without.
struct FromRun {
  bool measures = false;  ///< false: of a dataset, which has the key itself
  std::string path(const char* key) const { return measures ? key : ""; }
  std::string text(const std::string& doc, const std::string& initial) const {
    return measures ? doc + "; " + initial + " where the run's [data] has no such key" : doc;
  }
};

/// Samples of a task that a model is fine-tuned for. All of them are read when it is made, so its
/// files may change afterwards. Training has a permutation of them each epoch, a pure function of
/// seed and epoch; other sets have the order of the files.
class TaskDataset : public Dataset {
 public:
  /// A set of samples to measure.
  TaskDataset(std::string_view task, std::shared_ptr<const TaskSamples> test);

 protected:
  /// `read` makes samples of paths; a set without paths is empty. Throws ConfigError where a path
  /// is named twice, or gives no sample.
  template <class Read>
  TaskDataset(std::string_view task, const TaskKeys& keys, u64 seed, const Read& read)
      : TaskDataset(task, seed) {
    require_different(keys);
    set(SampleSet::train, "data.path", read(keys.path, "data.path"));
    if (keys.validation_path.empty()) return;
    set(SampleSet::validation,
        "data.validation_path",
        read(keys.validation_path, "data.validation_path"));
  }

 private:
  TaskDataset(std::string_view task, u64 seed);
  static void require_different(const TaskKeys& keys);
  void set(SampleSet set, std::string_view key, std::shared_ptr<const TaskSamples> samples);
  const TaskSamples* of(SampleSet set) const { return sets_[static_cast<std::size_t>(set)].get(); }
  i64 number_of(SampleSet set, i64 ordinal) const;

  std::vector<FieldInfo> do_fields() const override { return fields_; }
  i64 do_size(SampleSet set) const override;
  void do_read(SampleSet set, i64 ordinal, const SampleBuffers& out) const override;
  std::string do_origin(SampleSet set, i64 ordinal) const override;
  std::string do_fingerprint() const override;
  SetContent do_content(SampleSet set) const override;

  std::string task_;
  u64 shuffle_key_ = 0;
  std::vector<FieldInfo> fields_;
  std::array<std::shared_ptr<const TaskSamples>, 3> sets_;  // nullptr: there is none
};

/// What a set of a task for classes has beside its tokens: "label", which has a loss.
std::vector<FieldInfo> label_fields();

}  // namespace tessera
