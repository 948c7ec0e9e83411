#include "kernel/data/tokenizer_training.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
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

// A new file beside the output, removed where it did not get its name. Whatever is there already,
// another run's too, stays.
class PartialFile {
 public:
  explicit PartialFile(const std::string& output) {
    constexpr int kTries = 1000;  // processes of other machines and killed ones have such numbers
    int why = 0;
    for (int number = 0; number < kTries; ++number) {
      path_ = fmt::format("{}.{}-{}.partial", output, ::getpid(), number);
      if (open_output(path_, O_WRONLY | O_EXCL)) return;
      why = errno;
      if (why != EEXIST) break;
    }
    fail_config("output: cannot write {}: {}", written_path(path_), SystemError(why));
  }
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

// What hours of training give has to be writable.
void TokenizerTraining::require_writable(bool force) const {
  const fs::path output = keys_.output;
  if (output.empty()) fail_config("output: it is empty: name a file");
  std::error_code unknown;
  const fs::file_status there = fs::status(output, unknown);
  if (fs::is_directory(there)) {
    fail_config("output: {} is a folder: name a file in it", written_path(output));
  }
  if (!force && fs::exists(fs::symlink_status(output, unknown))) refuse_old();
  if (fs::exists(there) && !fs::is_regular_file(there)) {
    fail_config("output: {} is no regular file, and is not replaced", written_path(output));
  }
  const fs::path folder = fs::absolute(output).parent_path();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    fail_config(
        "output: cannot create the folder {}: {}", written_path(folder), SystemError(error));
  }
  const PartialFile tried(keys_.output);
}

void TokenizerTraining::refuse_old() const {
  fail_config("{} is there already: give another output, or --force to replace it",
              written_path(keys_.output));
}

std::vector<std::string> TokenizerTraining::read(
    const std::vector<InputFile>& files,
    const std::function<void(const std::string&)>& tell) const {
  const i64 most = keys_.sample_mib << 20;
  TextSample sample(most, static_cast<u64>(keys_.seed));
  read_corpus(
      files, {.text_field = keys_.text_field}, [&](std::string_view text) { sample.add(text); });
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
  const std::vector<InputFile> files = input_files(keys_.input, folder_, {keys_.output});
  require_writable(force);
  const std::vector<std::string> texts = read(files, tell);
  const std::string bytes = trainer_->train(texts);
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
    refuse_old();
  }
  return made;
}

}  // namespace tessera
