#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/data.hpp"
#include "tessera/io/data_file.hpp"
#include "tessera/io/kept_bytes.hpp"
#include "token_source.hpp"

namespace tessera {

/// The tokens of examples: a prompt and its answer each, one example after the other. Made once on
/// a host, where there is a folder to keep them in.
class InstructionTokens final : public TokenSource {
 public:
  /// What becomes of an example with more tokens than a sample has room for.
  enum class TooLong : u8 { error, cut_prompt, drop };
  struct Choices {
    std::string key;                 ///< that names the files: "data.path"
    std::vector<std::string> paths;  ///< files with a JSON object a line
    std::string prompt_field, answer_field;
    SpecialTexts special = SpecialTexts::as_text;
    std::optional<i32> end = {};  ///< token that ends each answer
    i64 most = 0;                 ///< tokens of an example
    TooLong too_long = TooLong::error;
    std::string keep_in;  ///< DatasetArguments::keep_in
  };
  /// Throws ConfigError naming file and line: no object with both texts, a prompt or an answer
  /// without a token, an example that is too long; or a file that is compressed.
  InstructionTokens(const Choices& choices, const Tokenizer& tokenizer);
  InstructionTokens(const InstructionTokens&) = delete;
  InstructionTokens& operator=(const InstructionTokens&) = delete;

  i64 size() const { return static_cast<i64>(starts_.size()) - 1; }  ///< examples
  i64 tokens() const { return static_cast<i64>(ids_.size()); }
  i64 begin(i64 example) const { return starts_[static_cast<std::size_t>(example)]; }
  i64 end(i64 example) const { return starts_[static_cast<std::size_t>(example) + 1]; }
  /// Tokens of its prompt.
  i64 prompt(i64 example) const { return prompts_[static_cast<std::size_t>(example)]; }
  i64 example_of(i64 token) const;
  /// Where it was written: "part.jsonl:118".
  std::string origin(i64 example) const;

  i64 cut() const { return counts_[0]; }      ///< examples whose prompt lost its begin
  i64 dropped() const { return counts_[1]; }  ///< examples that were left out
  u64 hash() const { return hash_; }          ///< of all that decides the tokens
  const std::vector<DataFile>& files() const { return files_; }

  void copy(i64 begin, i64 count, i64* to) const override;
  Place place(i64 token) const override;

 private:
  std::string make(const Choices& choices, const Tokenizer& tokenizer) const;
  bool view(std::string_view bytes);

  std::vector<DataFile> files_;
  u64 hash_ = 0;
  std::unique_ptr<KeptBytes> kept_;
  std::span<const i64> counts_, starts_, prompts_, lines_;
  std::span<const i32> file_of_, ids_;
};

}  // namespace tessera
