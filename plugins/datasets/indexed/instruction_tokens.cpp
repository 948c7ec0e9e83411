#include "instruction_tokens.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "arrays.hpp"
#include "special_text_notice.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/error.hpp"
#include "tessera/io/json_lines.hpp"
#include "tessera/io/written.hpp"
#include "tessera/log.hpp"

namespace tessera {
namespace {

using JsonObject = nlohmann::json;
using TooLong = InstructionTokens::TooLong;

constexpr std::string_view kKeptName = "instruct";

DataFile open_lines(const std::string& path, const std::string& key) {
  std::error_code unknown;
  if (path.find_first_of("*?[") != path.npos && !std::filesystem::exists(path, unknown)) {
    fail_config("{}: there is no file {}; patterns are not read here: name each file",
                key,
                written_path(path));
  }
  DataFile file(path, key);
  for (const std::string_view packed : {"\x1F\x8B", "\x28\xB5\x2F\xFD"}) {  // gzip, zstd
    if (!file.text().starts_with(packed)) continue;
    fail_config("{}: {} is compressed, and such files are not read here: unpack it",
                key,
                written_path(path));
  }
  return file;
}

// Room for a prompt and its answer; false: the example is left out.
bool fit(std::vector<i32>& prompt,
         std::size_t answer,
         const InstructionTokens::Choices& choices,
         const std::string& where,
         std::vector<i64>& counts) {
  const std::size_t tokens = prompt.size() + answer;
  const auto most = static_cast<std::size_t>(choices.most);
  if (tokens <= most) return true;
  switch (choices.too_long) {
    case TooLong::error:
      fail_config(
          "{}: {}: prompt and answer have {} tokens, and a sample has room for {}; raise "
          "batch.sequence_length, or say what becomes of such: data.too_long = \"cut_prompt\" or "
          "\"drop\"",
          choices.key,
          where,
          tokens,
          most);
    case TooLong::drop:
      ++counts[1];
      return false;
    case TooLong::cut_prompt:
      break;
  }
  if (answer >= most) {
    fail_config(
        "{}: {}: the answer alone has {} tokens, and a sample has room for {} with one of the "
        "prompt; raise batch.sequence_length, or leave such examples out: data.too_long = \"drop\"",
        choices.key,
        where,
        answer,
        most);
  }
  prompt.erase(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(tokens - most));
  ++counts[0];
  return true;
}

}  // namespace

InstructionTokens::InstructionTokens(const Choices& choices, const Tokenizer& tokenizer) {
  std::string decides = fmt::format("2 {} {} {} {} {} {} {} {} {}",
                                    tokenizer.fingerprint(),
                                    choices.prompt_field.size(),
                                    choices.prompt_field,
                                    choices.answer_field.size(),
                                    choices.answer_field,
                                    choices.special == SpecialTexts::parsed,
                                    choices.end.value_or(-1),
                                    choices.most,
                                    static_cast<int>(choices.too_long));
  for (const std::string& path : choices.paths) {
    files_.push_back(open_lines(path, choices.key));
    decides += fmt::format(" {:016x}", hash64(files_.back().text()));
  }
  hash_ = hash64(decides);
  kept_ = std::make_unique<KeptBytes>(
      choices.keep_in,
      fmt::format("instructions-{:016x}.ids", hash_),
      [&] { return make(choices, tokenizer); },
      [this](std::string_view bytes) { return view(bytes); });
  require(view(kept_->bytes()), "tokens of instructions that were kept are damaged");
}

std::string InstructionTokens::make(const Choices& choices, const Tokenizer& tokenizer) const {
  std::size_t bytes = 0;
  for (const DataFile& file : files_) bytes += file.text().size();
  constexpr std::size_t kMany = 16 << 20;
  if (bytes > kMany) log_info("{}: {} MB of text become tokens", choices.key, bytes >> 20);
  std::vector<i64> counts(2), starts = {0}, prompts, lines;
  std::vector<i32> file_of, ids, prompt, answer;
  const auto encoder = tokenizer.encoder(choices.special);
  SpecialTextNotice notice(tokenizer, choices.special);
  const auto encode = [&](const JsonObject& object,
                          const std::string& field,
                          const std::string& where,
                          std::vector<i32>& out) {
    out.clear();
    const std::string text = text_in(object, field, where);
    encoder->append(text, out);
    notice.look(text, out, field, where);
    if (out.empty()) {
      fail_config("{}: {}: {} has no tokens: an example is a prompt and its answer",
                  choices.key,
                  where,
                  quote(field));
    }
  };
  for (std::size_t file = 0; file < files_.size(); ++file) {
    for_each_json_line<JsonObject>(files_[file], [&](const JsonObject& object, i64 line) {
      const std::string where = fmt::format("{}:{}", written_path(files_[file].path()), line);
      encode(object, choices.prompt_field, where, prompt);
      encode(object, choices.answer_field, where, answer);
      if (choices.end) answer.push_back(*choices.end);
      if (!fit(prompt, answer.size(), choices, where, counts)) return;
      ids.insert(ids.end(), prompt.begin(), prompt.end());
      ids.insert(ids.end(), answer.begin(), answer.end());
      starts.push_back(static_cast<i64>(ids.size()));
      prompts.push_back(static_cast<i64>(prompt.size()));
      lines.push_back(line);
      file_of.push_back(static_cast<i32>(file));
    });
  }
  if (prompts.empty()) {
    const std::string why =
        counts[1] > 0 ? fmt::format(" that is not too long: {} are", counts[1]) : std::string();
    fail_config("{}: there is no example in it{}", choices.key, why);
  }
  return join_arrays(kKeptName, counts, starts, prompts, lines, file_of, ids);
}

bool InstructionTokens::view(std::string_view bytes) {
  if (!view_arrays(bytes, kKeptName, counts_, starts_, prompts_, lines_, file_of_, ids_)) {
    return false;
  }
  const std::size_t examples = prompts_.size();
  bool good = counts_.size() == 2 && examples > 0 && starts_.size() == examples + 1 &&
              lines_.size() == examples && file_of_.size() == examples && starts_[0] == 0 &&
              starts_[examples] == static_cast<i64>(ids_.size());
  for (std::size_t i = 0; good && i < examples; ++i) {
    good = prompts_[i] > 0 && prompts_[i] < starts_[i + 1] - starts_[i] && file_of_[i] >= 0 &&
           static_cast<std::size_t>(file_of_[i]) < files_.size();
  }
  return good;
}

i64 InstructionTokens::example_of(i64 token) const {
  return std::ranges::upper_bound(starts_, token) - starts_.begin() - 1;
}

std::string InstructionTokens::origin(i64 example) const {
  const auto at = static_cast<std::size_t>(example);
  const DataFile& file = files_[static_cast<std::size_t>(file_of_[at])];
  return fmt::format("{}:{}", written_path(file.path()), lines_[at]);
}

void InstructionTokens::copy(i64 begin, i64 count, i64* to) const {
  std::ranges::copy(ids_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)),
                    to);
}

TokenSource::Place InstructionTokens::place(i64 token) const {
  return {origin(example_of(token)), "the example"};
}

}  // namespace tessera
