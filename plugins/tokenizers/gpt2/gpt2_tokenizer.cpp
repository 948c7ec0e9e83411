#include "gpt2_tokenizer.hpp"

#include <algorithm>
#include <unordered_map>

#include "pair_merger.hpp"
#include "tessera/error.hpp"
#include "tessera/hash.hpp"

namespace tessera {

namespace {

// Words come again and again: what the first one became is looked up for the others.
class WordEncoder {
 public:
  explicit WordEncoder(const Vocabulary& vocabulary) : merger_(vocabulary) {}

  void encode(std::string_view word, std::vector<i32>& ids) {
    constexpr std::size_t kLongest = 32;  // longer ones hardly come again
    if (word.size() > kLongest) return merger_.encode(word, ids);
    const auto [known, fresh] = known_.try_emplace(word);
    auto& [begin, end] = known->second;
    if (fresh) {
      begin = kept_.size();
      merger_.encode(word, kept_);
      end = kept_.size();
    }
    ids.insert(
        ids.end(), kept_.begin() + static_cast<i64>(begin), kept_.begin() + static_cast<i64>(end));
  }

 private:
  PairMerger merger_;
  std::vector<i32> kept_;
  std::unordered_map<std::string_view, std::pair<std::size_t, std::size_t>> known_;
};

}  // namespace

void Gpt2Tokenizer::Config::describe(Schema<Config>& s) {
  s.field("path", &Config::path, "folder with vocab.json and merges.txt")
      .required()
      .megatron("--vocab-file");
  s.field("special",
          &Config::special,
          "texts that are one token wherever they stand, where the vocabulary has them");
}

Gpt2Tokenizer::Gpt2Tokenizer(const Config& config, TokenizerArguments&) : vocabulary_(config.path) {
  for (const std::string& text : config.special) {
    if (text.empty()) fail_config("tokenizer.special: an empty text is no token");
    if (const i32 id = vocabulary_.find(text); id >= 0) special_.emplace_back(text, id);
  }
  std::ranges::stable_sort(
      special_, std::greater<>(), [](const auto& token) { return token.first.size(); });
  std::string special;
  for (const auto& [text, id] : special_) {
    special += fmt::format("{} {} {}\n", id, text.size(), text);
  }
  // Words are split by one pattern, which "gpt2" stands for.
  fingerprint_ =
      fmt::format("gpt2: {} tokens, {:016x}", vocabulary(), hash64(special, vocabulary_.hash()));
}

std::vector<i32> Gpt2Tokenizer::encode(std::string_view text) const {
  std::vector<i32> ids;
  WordEncoder encoder(vocabulary_);
  std::vector<std::size_t> next(special_.size(), 0);  // where each of them stands
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    std::size_t at = text.size();
    const std::pair<std::string, i32>* found = nullptr;
    for (std::size_t i = 0; i < special_.size(); ++i) {
      if (begin == 0 || next[i] < begin) next[i] = text.find(special_[i].first, begin);
      if (next[i] >= at) continue;  // npos too
      at = next[i];
      found = &special_[i];
    }
    words_.for_each(text.substr(begin, at - begin),
                    [&](std::string_view word) { encoder.encode(word, ids); });
    end = at;
    if (found == nullptr) continue;
    ids.push_back(found->second);
    end += found->first.size();
  }
  return ids;
}

std::string Gpt2Tokenizer::decode(const std::vector<i32>& ids) const {
  std::string text;
  for (const i32 id : ids) {
    require(id >= 0 && id < vocabulary_.size(),
            "tokenizer gpt2: the ids are 0 to {}, not {}",
            vocabulary_.size() - 1,
            id);
    text += vocabulary_.bytes(id);
  }
  return text;
}

}  // namespace tessera
