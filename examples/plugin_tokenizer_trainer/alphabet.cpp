// A vocabulary of the bytes that are most frequent in some texts, and the tokenizer that reads it.
#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <tessera/base/hash.hpp>
#include <tessera/data.hpp>
#include <tessera/error.hpp>
#include <tessera/io/data_file.hpp>
#include <tessera/plugin.hpp>
#include <tessera/tokenizer_trainer.hpp>
#include <vector>

namespace {

using namespace tessera;

// The file has the bytes, the most frequent first.
class AlphabetTrainer final : public TokenizerTrainer {
 public:
  struct Config {
    i64 vocabulary = 64;
    static void describe(Schema<Config>& s) {
      s.field("vocabulary", &Config::vocabulary, "tokens, with one for all other bytes")
          .at_least(2)
          .at_most(257);
    }
  };
  AlphabetTrainer(const Config& config, TokenizerTrainerArguments&)
      : most_(static_cast<std::size_t>(config.vocabulary - 1)) {}

 private:
  std::string do_tokenizer() const override { return "alphabet"; }

  // Of equally frequent bytes the smaller one comes first, so that texts decide all.
  std::string do_train(const std::vector<std::string>& texts) const override {
    std::array<i64, 256> counts{};
    for (const std::string& text : texts) {
      for (const char c : text) ++counts[static_cast<unsigned char>(c)];
    }
    std::array<std::size_t, 256> order{};
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater(), [&](std::size_t byte) { return counts[byte]; });
    std::string bytes;
    for (const std::size_t byte : order) {
      if (counts[byte] == 0 || bytes.size() == most_) break;
      bytes += static_cast<char>(byte);
    }
    if (bytes.size() < most_) {
      fail_config("trainer.vocabulary = {}: these texts have {} different bytes, which makes {}",
                  most_ + 1,
                  bytes.size(),
                  bytes.size() + 1);
    }
    return bytes;
  }

  std::size_t most_;
};

class Alphabet final : public Tokenizer {
 public:
  struct Config {
    std::string path;
    static void describe(Schema<Config>& s) {
      s.field("path", &Config::path, "a file that the trainer of this name wrote")
          .is_path()
          .required();
    }
  };
  Alphabet(const Config& config, TokenizerArguments&)
      : bytes_(DataFile(config.path, "tokenizer.path").text()) {
    ids_.fill(other());
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      i32& id = ids_[static_cast<unsigned char>(bytes_[i])];
      if (id != other()) fail_config("tokenizer.path: {} has a byte twice", config.path);
      id = static_cast<i32>(i);
    }
  }

  i64 do_vocabulary() const override { return other() + 1; }
  std::string do_fingerprint() const override {
    return fmt::format("alphabet: {:016x}", hash64(bytes_));
  }
  std::vector<i32> do_encode(std::string_view text) const override {
    std::vector<i32> ids;
    for (const char c : text) ids.push_back(ids_[static_cast<unsigned char>(c)]);
    return ids;
  }
  std::string do_decode(const std::vector<i32>& ids) const override {
    std::string text;
    for (const i32 id : ids) {
      require(id >= 0 && id <= other(), "alphabet: the ids are 0 to {}, not {}", other(), id);
      text += id == other() ? '?' : bytes_[static_cast<std::size_t>(id)];
    }
    return text;
  }

 private:
  i32 other() const { return static_cast<i32>(bytes_.size()); }

  std::string bytes_;
  std::array<i32, 256> ids_{};
};

}  // namespace

TESSERA_PLUGIN(alphabet, "0.1.0", "Tokens are the most frequent bytes of some texts") {
  registrar.add<TokenizerTrainer, AlphabetTrainer>("alphabet", "the most frequent bytes");
  registrar.add<Tokenizer, Alphabet>("alphabet", "one id for each byte that the trainer found");
}
