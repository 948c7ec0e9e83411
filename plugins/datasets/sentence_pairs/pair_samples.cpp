#include "pair_samples.hpp"

#include <algorithm>

#include "tessera/base/hash.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

// A task of GLUE's, whose files are texts with their names.
PairTask task_of(std::string name, decltype(for_each_mnli)& read) {
  return {.name = std::move(name),
          .read = [&read](const DataFile& file, BadRows& bad, const TakePair& take) {
            read(file.text(), written_path(file.path()), bad, take);
          }};
}

}  // namespace

PairTask mnli_task() { return task_of("mnli", for_each_mnli); }
PairTask qqp_task() { return task_of("qqp", for_each_qqp); }

PairSamples::PairSamples(const PairTask& task,
                         const std::vector<std::string>& paths,
                         std::string_view key,
                         const How& how)
    : marks_(how.tokenizer),
      pairs_(task.pairs),
      length_(how.length),
      texts_(how.tokenizer, how.vocabulary) {
  if (length_ < kPairMarks) {
    fail_config("batch.sequence_length = {}: {} needs {} or more", length_, task.name, kPairMarks);
  }
  std::string decides = fmt::format("1 {} {}", how.tokenizer.fingerprint(), length_) + task.keys;
  for (const std::string& path : paths) {
    const DataFile file(path, key);
    const std::string name = written_path(path);
    BadRows bad = how.bad;
    task.read(file, bad, [&](const SentencePair& pair) {
      texts_.add(pair.a);
      texts_.add(pair.b);
      labels_.push_back(pair.label);
      lines_.push_back(pair.line);
    });
    if (size() == (ends_.empty() ? 0 : ends_.back()))
      fail_config("{}: {} has no example", key, name);
    left_out_ += bad.left_out;
    files_.push_back(name);
    ends_.push_back(size());
    decides += fmt::format(" {:016x} {}", hash64(file.text()), bad.left_out);
  }
  texts_.finish();
  hash_ = hash64(decides);
}

std::vector<FieldInfo> PairSamples::fields() const {
  std::vector<FieldInfo> fields = {
      {.name = "tokens"}, {.name = "segments"}, {.name = "last", .dtype = DType::i32}};
  for (FieldInfo& field : label_fields()) fields.push_back(std::move(field));
  return fields;
}

void PairSamples::write(i64 number, const SampleBuffers& out) const {
  const PairPlaces places = {static_cast<i64*>(out.fields[0]),
                             static_cast<i64*>(out.fields[1]),
                             static_cast<i32*>(out.fields[2])};
  if (pairs_) {
    pack_pair(marks_, texts_[2 * number], texts_[2 * number + 1], length_, 0, places);
  } else {
    pack_text(marks_, texts_[2 * number], length_, 0, places);
  }
  *static_cast<i64*>(out.fields[3]) = labels_[static_cast<std::size_t>(number)];
  *static_cast<u8*>(out.fields[4]) = 1;
}

std::string PairSamples::origin(i64 number) const {
  const auto file =
      static_cast<std::size_t>(std::ranges::upper_bound(ends_, number) - ends_.begin());
  return fmt::format("{}:{}", files_[file], lines_[static_cast<std::size_t>(number)]);
}

SetContent PairSamples::content() const {
  std::string unit = pairs_ ? "pairs" : "texts";
  if (left_out_ > 0) unit += fmt::format(" (lines left out: {})", left_out_);
  i64 tokens = 0;
  for (i64 i = 0; i < size(); ++i) {
    const auto both = static_cast<i64>(texts_[2 * i].size() + texts_[2 * i + 1].size());
    tokens += std::min(both + (pairs_ ? kPairMarks : kTextMarks), length_);
  }
  return {size(), unit, tokens};
}

}  // namespace tessera
