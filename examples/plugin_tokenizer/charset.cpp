// One id for each character of an alphabet, and one for all others: a small vocabulary for small
// models.
#include <array>
#include <span>
#include <string>
#include <tessera/base/hash.hpp>
#include <tessera/data.hpp>
#include <tessera/error.hpp>
#include <tessera/plugin.hpp>

namespace {

using namespace tessera;

// Constant once it is made: several threads encode at once.
class Charset final : public Tokenizer {
 public:
  struct Config {
    std::string characters = " abcdefghijklmnopqrstuvwxyz.,;:!?'-\n";
    bool fold_case = true;
    static void describe(Schema<Config>& s) {
      s.field("characters", &Config::characters, "id 0 is the first; the last id is all others");
      s.field("fold_case", &Config::fold_case, "read A-Z as a-z");
    }
  };

  // What the schema cannot say is checked here. The key's path in the text makes the error name the
  // line of the file.
  Charset(const Config& config, TokenizerArguments&) : characters_(config.characters) {
    ids_.fill(other());
    for (std::size_t i = 0; i < characters_.size(); ++i) {
      i32& id = ids_[static_cast<unsigned char>(characters_[i])];
      if (id != other()) {
        fail_config("tokenizer.characters: '{}' is there twice", characters_[i]);
      }
      id = static_cast<i32>(i);
    }
    if (!config.fold_case) return;
    for (char c = 'A'; c <= 'Z'; ++c) {
      i32& id = ids_[static_cast<unsigned char>(c)];
      if (id == other()) id = ids_[static_cast<unsigned char>(c - 'A' + 'a')];
    }
  }

  i64 do_vocabulary() const override { return other() + 1; }

  // The alphabet and fold_case decide every id, and the table has both.
  std::string do_fingerprint() const override {
    return fmt::format("charset: {:016x}", hash64(std::as_bytes(std::span(ids_))));
  }

  std::vector<i32> do_encode(std::string_view text) const override {
    std::vector<i32> ids;
    ids.reserve(text.size());
    for (const char c : text) ids.push_back(ids_[static_cast<unsigned char>(c)]);
    return ids;
  }

  std::string do_decode(const std::vector<i32>& ids) const override {
    std::string text;
    text.reserve(ids.size());
    for (const i32 id : ids) {
      require(id >= 0 && id <= other(), "charset: the ids are 0 to {}, not {}", other(), id);
      text.push_back(id == other() ? '?' : characters_[static_cast<std::size_t>(id)]);
    }
    return text;
  }

 private:
  i32 other() const { return static_cast<i32>(characters_.size()); }

  std::string characters_;
  std::array<i32, 256> ids_{};
};

}  // namespace

TESSERA_PLUGIN(charset, "0.1.0", "Tokens are the characters of an alphabet") {
  registrar.add<Tokenizer, Charset>("charset", "one id for each character of an alphabet");
}
