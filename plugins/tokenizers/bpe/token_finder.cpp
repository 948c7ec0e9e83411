#include "token_finder.hpp"

#include <algorithm>
#include <utility>

#include "unicode.hpp"

namespace tessera {

namespace {

u64 branch(u32 node, char byte) {
  return static_cast<u64>(node) << 8 | static_cast<unsigned char>(byte);
}

bool alone(std::string_view text, std::size_t begin, std::size_t end) {
  return !is_word_character(last_character(text.substr(0, begin))) &&
         !is_word_character(first_character(text.substr(end)));
}

}  // namespace

TokenFinder::TokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (const AddedToken& token : tokens_) {
    if (token.text.empty()) continue;
    if (token.single_word) require_categories("added_tokens with single_word");
    one_first_ = one_first_ && token.text[0] == tokens_.front().text[0];
    first_[static_cast<unsigned char>(token.text[0])] = true;
    u32 node = 0;
    for (const char byte : token.text) {
      const auto [known, fresh] =
          branches_.try_emplace(branch(node, byte), static_cast<u32>(ends_.size()));
      if (fresh) ends_.push_back(nullptr);
      node = known->second;
    }
    if (ends_[node] == nullptr) ends_[node] = &token;  // of equal ones the first
  }
}

TokenFinder::Found TokenFinder::next(std::string_view text, std::size_t begin) const {
  if (ends_.size() == 1) return {};  // there are no tokens
  for (; begin < text.size(); ++begin) {
    if (one_first_) begin = text.find(tokens_.front().text[0], begin);
    if (begin == text.npos) break;
    if (!first_[static_cast<unsigned char>(text[begin])]) continue;
    Found found;
    u32 node = 0;
    for (std::size_t at = begin; at < text.size(); ++at) {
      const auto known = branches_.find(branch(node, text[at]));
      if (known == branches_.end()) break;
      node = known->second;
      if (ends_[node] != nullptr) found = {begin, at + 1, ends_[node]};
    }
    if (found.token != nullptr) return found;
  }
  return {};
}

bool TokenFinder::has_special() const { return std::ranges::any_of(tokens_, &AddedToken::special); }

void TokenFinder::for_each(std::string_view text, SpecialTexts special, const Take& take) const {
  std::size_t done = 0;
  for (Found found = next(text, 0); found.token != nullptr; found = next(text, found.end)) {
    std::size_t begin = found.begin, end = found.end;
    if (found.token->special && special == SpecialTexts::as_text) continue;
    if (found.token->single_word && !alone(text, begin, end)) continue;
    if (found.token->lstrip) {
      while (begin > 0) {
        const Character before = last_character(text.substr(0, begin));
        if (!is_white_space(before)) break;
        begin -= before.size;
      }
      begin = std::max(begin, done);
    }
    if (found.token->rstrip) {
      while (end < text.size()) {
        const Character after = first_character(text.substr(end));
        if (!is_white_space(after)) break;
        end += after.size;
      }
    }
    if (begin > done) take(text.substr(done, begin - done), -1);
    take(text.substr(begin, end - begin), static_cast<i32>(found.token->id));
    done = end;
  }
  if (done < text.size()) take(text.substr(done), -1);
}

}  // namespace tessera
