// Sentences whose likelihood is known, and files that are refused.
#include <cstdio>
#include <exception>
#include <fstream>
#include <tessera/error.hpp>
#include <tessera/evaluation.hpp>
#include <tessera/testing/local_world.hpp>

namespace {

using namespace tessera;

bool failed(bool holds, const char* what) {
  if (!holds) std::fprintf(stderr, "not so: %s\n", what);
  return !holds;
}

template <class F>
bool throws(F&& f) try {
  f();
  return false;
} catch (const ConfigError&) {
  return true;
}

class Bytes final : public Tokenizer {
  i64 do_vocabulary() const override { return 256; }
  std::string do_fingerprint() const override { return "bytes"; }
  std::vector<i32> do_encode(std::string_view text) const override {
    return {text.begin(), text.end()};
  }
  std::string do_decode(const std::vector<i32>& ids) const override {
    return {ids.begin(), ids.end()};
  }
};

// "a" is likelier than "b".
class Letters final : public TextScorer {
 public:
  i64 most_tokens() const override { return 8; }
  std::vector<std::vector<TokenScore>> score(const std::vector<ScoredText>& texts) override {
    std::vector<std::vector<TokenScore>> all;
    for (const ScoredText& text : texts) {
      all.emplace_back();
      for (auto i = static_cast<std::size_t>(text.first); i < text.tokens.size(); ++i) {
        all.back().push_back({-static_cast<double>(text.tokens[i]), false});
      }
    }
    return all;
  }
};

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::filesystem::path> folders(argv + 1, argv + argc);  // of plugins
  const testing::LocalWorld world(folders);
  EvaluationArguments arguments;
  arguments.tokenizer = std::make_shared<const Bytes>();
  arguments.most_tokens = 8;
  const auto of = [&](const std::string& text) {
    const std::string file = std::filesystem::absolute("test_pairs.txt").string();
    std::ofstream(file) << text;
    return world.make<EvaluationTask>("sentence_pairs", arguments, {{"data", file}});
  };
  Letters scorer;
  const auto results = of("xaa\txab\nxb\txa\nba\tab\nxa\txa")->evaluate(scorer);
  bool wrong = failed(results.at(0).second == Value(4), "four pairs");
  // The third has another first token, which does not count; the fourth is undecided.
  wrong |= failed(results.at(1).second == Value(0.5), "two of them are right");
  wrong |= failed(throws([&] { of("no tab\n"); }), "a line without a tab is an error");
  wrong |= failed(throws([&] { of("a\tbc\n"); }), "one token has no score");
  wrong |= failed(throws([&] { of("abcdefghi\tab\n"); }), "nine tokens are too many");
  wrong |= failed(throws([&] { of(""); }), "no pair is an error");
  return wrong ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
