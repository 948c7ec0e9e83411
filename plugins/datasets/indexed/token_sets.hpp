#pragma once
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parts.hpp"
#include "prefixes.hpp"
#include "tessera/data.hpp"

namespace tessera {

/// The keys that name token files and say which set has what of them.
struct TokenSetKeys {
  std::vector<std::string> path, validation_path, test_path;
  Auto<std::string> split;

  /// Adds them to a dataset's, whose Config is derived from this.
  template <class Config>
  static void describe_paths(Schema<Config>& s);
};

/// "training"
const char* name_of(SampleSet set);

/// Token files, opened once each, and the parts of them that each set has. Throws ConfigError where
/// keys contradict each other, or a file was made with another tokenizer.
class TokenSets {
 public:
  static constexpr SampleSet kSets[] = {SampleSet::train, SampleSet::validation, SampleSet::test};

  struct Set {
    std::vector<Part> parts;
    std::vector<double> weights;
    bool split = false;  // shares its files with other sets
    std::string key;     // that names its files: "data.path"
  };

  /// `sequences`: see Part.
  TokenSets(const TokenSetKeys& keys, const Tokenizer& tokenizer, bool sequences);
  const Set& of(SampleSet set) const { return sets_[static_cast<std::size_t>(set)]; }

  /// The parts of a set of which `gives` is true; a file without a sample is passed over. Empty:
  /// the set has no samples. Where a set has to have some, of a file with a weight or for training,
  /// and has none, `lacks` throws why: of this part, or, without one, of all.
  std::vector<Part> giving(SampleSet set,
                           const std::function<bool(const Part&)>& gives,
                           const std::function<void(const Part*)>& lacks) const;

  SetContent content(SampleSet set) const;
  std::vector<const DataFile*> files() const;
  /// "16 hexadecimal digits: 7000 tokens of 2 files", of all that the sets have.
  std::string identity() const;

 private:
  Set& mutable_of(SampleSet set) { return sets_[static_cast<std::size_t>(set)]; }
  std::shared_ptr<const TokenFile> open(const std::string& prefix,
                                        const std::string& key,
                                        const Tokenizer& tokenizer);
  void add(SampleSet set,
           const std::vector<std::string>& paths,
           const std::string& key,
           const Tokenizer& tokenizer);
  void add_split(const TokenSetKeys& keys, const Tokenizer& tokenizer);
  i64 items_of(const TokenFile& file) const;

  bool sequences_;
  std::vector<std::shared_ptr<const TokenFile>> files_;
  std::array<Set, 3> sets_;
};

template <class Config>
void TokenSetKeys::describe_paths(Schema<Config>& s) {
  s.field(
       "path",
       &Config::path,
       "prefixes of token files (PREFIX.idx, PREFIX.bin), as `tessera data build` or Megatron-LM "
       "write them, or a weight before each prefix: [\"0.3\", \"a\", \"0.7\", \"b\"]. Without "
       "weights they are read as one corpus. Identical on all ranks' machines")
      .is_path({"<number>"})
      .required()
      .megatron("--data-path")
      .also("--train-data-path", "is {} here, beside data.validation_path");
  s.field("validation_path",
          &Config::validation_path,
          "the same for the validation set, which is not split off `path` then")
      .is_path({"<number>"})
      .megatron("--valid-data-path");
  s.field("test_path", &Config::test_path, "the same for the test set")
      .is_path({"<number>"})
      .megatron("--test-data-path");
  s.field("split",
          &Config::split,
          "shares of train, validation and test in the documents of each file, which follow each "
          "other there. auto: \"98,2,0\"; all of it for training where validation_path or "
          "test_path is written. With weights, a set is empty where a file has no sample of it")
      .megatron("--split");
}

}  // namespace tessera
