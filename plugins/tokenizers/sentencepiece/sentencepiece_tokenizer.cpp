#include "sentencepiece_tokenizer.hpp"

#include <filesystem>

#include "added_files.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;

ModelFile model_of(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    if (!fs::exists(path, error)) {
      fail_config("tokenizer.path: {} {}; give a .model file, or a folder with tokenizer.model",
                  written_path(path),
                  error ? "cannot be read: " + error.message() : "does not exist");
    }
    return read_model(path);
  }
  const fs::path file = fs::path(path) / "tokenizer.model";
  if (!fs::exists(file, error)) {
    fail_config("tokenizer.path: {} has no tokenizer.model; give a .model file, or its folder",
                written_path(path));
  }
  ModelFile model = read_model(file.string());
  require_nothing_added(path, model);
  return model;
}

}  // namespace

void SentencePieceTokenizer::Config::describe(Schema<Config>& s) {
  s.field(
       "path",
       &Config::path,
       "a .model file of SentencePiece, or a folder with tokenizer.model; the files beside it may "
       "not add tokens")
      .is_path()
      .required()
      .megatron("--tokenizer-model");
}

SentencePieceTokenizer::SentencePieceTokenizer(const Config& config, TokenizerArguments&)
    : SentencePieceTokenizer(model_of(config.path)) {}

SentencePieceTokenizer::SentencePieceTokenizer(const ModelFile& file)
    : processor_(file),
      cuts_(file),
      controls_(file.pieces),
      fingerprint_(fmt::format(
          "sentencepiece: {} tokens, {:016x}", file.pieces.size(), hash64(file.bytes))) {}

void SentencePieceTokenizer::append(std::string_view text, std::vector<i32>& ids) const {
  cuts_.for_each(text, [&](std::string_view part) { processor_.encode(part, ids); });
}

std::vector<i32> SentencePieceTokenizer::do_encode(std::string_view text) const {
  std::vector<i32> ids;
  append(text, ids);
  return ids;
}

// What lies between two control symbols is a text of its own, with the space before it that the
// model puts before a text.
std::vector<i32> SentencePieceTokenizer::do_encode_parsed(std::string_view text) const {
  std::vector<i32> ids;
  controls_.for_each(text, [&](std::string_view part, i32 id) {
    if (id >= 0) return ids.push_back(id);
    append(part, ids);
  });
  return ids;
}

std::string SentencePieceTokenizer::do_decode(const std::vector<i32>& ids) const {
  const i64 tokens = processor_.size();
  for (const i32 id : ids) {
    require(id >= 0 && id < tokens,
            "tokenizer sentencepiece: the ids are 0 to {}, not {}",
            tokens - 1,
            id);
  }
  return processor_.decode(ids);
}

}  // namespace tessera
