#include "kernel/data/tokenizer_training.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "kernel/config/component_tables.hpp"
#include "kernel/data/corpus_reader.hpp"
#include "kernel/data/text_sample.hpp"
#include "tessera/bounds.hpp"
#include "tessera/data.hpp"
#include "tessera/error.hpp"
#include "tessera/io/output_file.hpp"
#include "tessera/io/size_text.hpp"
#include "tessera/io/written.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr i64 kMostMib = 1024;  // trainers count characters in 31 bits

std::string size_of(i64 bytes) { return size_text(static_cast<double>(bytes)); }

// Removes a file that did not get its name.
class PartialFile {
 public:
  explicit PartialFile(const std::string& output) : path_(output + ".partial") {}
  ~PartialFile() {
    std::error_code gone;
    fs::remove(path_, gone);
  }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

void TrainingKeys::describe(Schema<TrainingKeys>& s) {
  s.field("input",
          &TrainingKeys::input,
          "files of documents, as those of `tessera data build`: with * and ?; .jsonl, .ndjson, "
          ".json with an object a line; .txt with one document; each also as .gz and .zst")
      .is_path()
      .required();
  s.field("output", &TrainingKeys::output, "the file that is written").is_path().required();
  s.field("text_field", &TrainingKeys::text_field, "the field of a JSON object that has the text");
  s.field("sample_mib",
          &TrainingKeys::sample_mib,
          "MiB of text to train on, at most; of more, `seed` chooses runs of lines")
      .at_least(1)
      .at_most(kMostMib);
  s.field("seed", &TrainingKeys::seed, "decides which text is trained on, where it is not all")
      .at_least(0)
      .at_most(kMostSeed);
}

TokenizerTraining::TokenizerTraining(const Config& config, const PluginHost& plugins)
    : plugins_(plugins) {
  TableChecker checker(config, plugins);
  const std::vector<FieldSpec> fields = fields_of<TrainingKeys>();
  checker.check("", fields, {"trainer"});
  type_ = checker.check_component("trainer", TokenizerTrainer::kKind);
  checker.finish();
  read_fields(fields, *make_node(checker.tree(), ""), {}, &keys_);
  if (!config.sources().empty()) folder_ = config.sources().front().folder.string();
  TokenizerTrainerArguments arguments;
  trainer_ =
      plugins.make<TokenizerTrainer>(type_, *make_node(checker.tree(), "trainer"), {}, arguments);
}

std::vector<std::string> TokenizerTraining::read(
    const std::function<void(const std::string&)>& tell) const {
  const i64 most = keys_.sample_mib << 20;
  TextSample sample(most, static_cast<u64>(keys_.seed));
  read_corpus(input_files(keys_.input, folder_, keys_.output),
              {.text_field = keys_.text_field},
              [&](std::string_view text) { sample.add(text); });
  if (sample.bytes() == 0) {
    fail_config("input: there is no text in {} documents", sample.documents());
  }
  if (sample.kept() == 0) {
    fail_config("sample_mib = {}: each line of the input is longer", keys_.sample_mib);
  }
  const std::string part = sample.kept() == sample.bytes()
                               ? size_of(sample.kept())
                               : fmt::format("{} of {}, which seed = {} chose,",
                                             size_of(sample.kept()),
                                             size_of(sample.bytes()),
                                             keys_.seed);
  tell(fmt::format("{} trains on {} in {} documents", type_, part, sample.documents()));
  return sample.take();
}

// As the tokenizer that is to read it does.
TrainedVocabulary TokenizerTraining::opened(const std::string& file,
                                            const std::vector<std::string>& texts) const {
  TrainedVocabulary made;
  made.tokenizer = trainer_->tokenizer();
  const auto tree = std::make_shared<ConfigTree>();
  Entry path;
  path.value = Value(file);
  path.key.kind = path.at.kind = Origin::set;
  path.key.name = path.at.name = keys_.output;
  tree->put("path", std::move(path));
  TokenizerArguments arguments;
  const auto tokenizer =
      plugins_.make<Tokenizer>(made.tokenizer, *make_node(tree, ""), {}, arguments);
  made.tokens = tokenizer->vocabulary();
  constexpr std::size_t kEnough = 1 << 20;
  std::size_t bytes = 0, ids = 0;
  for (const std::string& text : texts) {
    bytes += text.size();
    ids += tokenizer->encode(text).size();
    if (bytes >= kEnough) break;
  }
  made.bytes_a_token = static_cast<double>(bytes) / static_cast<double>(ids);
  return made;
}

TrainedVocabulary TokenizerTraining::run(
    bool force, const std::function<void(const std::string&)>& tell) const {
  const auto fail_there = [&] {
    fail_config("{} is there already: give another output, or --force to replace it",
                written_path(keys_.output));
  };
  std::error_code unknown;
  if (!force && fs::exists(fs::symlink_status(keys_.output, unknown))) fail_there();
  const std::vector<std::string> texts = read(tell);
  const std::string bytes = trainer_->train(texts);
  fs::create_directories(fs::absolute(keys_.output).parent_path());
  const PartialFile partial(keys_.output);
  {
    OutputFile out(partial.path());
    out.write(bytes);
    out.sync();
  }
  const TrainedVocabulary made = opened(partial.path().string(), texts);
  if (force) {
    fs::rename(partial.path(), keys_.output);
  } else if (!rename_new(partial.path(), keys_.output)) {
    fail_there();
  }
  return made;
}

}  // namespace tessera
