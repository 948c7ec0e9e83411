#include "special_text_notice.hpp"

#include "tessera/io/written.hpp"
#include "tessera/log.hpp"

namespace tessera {

SpecialTextNotice::SpecialTextNotice(const Tokenizer& tokenizer, SpecialTexts special) {
  if (special == SpecialTexts::parsed || !tokenizer.has_special_texts()) return;
  parser_ = tokenizer.encoder(SpecialTexts::parsed);
}

void SpecialTextNotice::look(const std::string& text,
                             const std::vector<i32>& ids,
                             const std::string& field,
                             const std::string& where) {
  if (parser_ == nullptr) return;
  parsed_.clear();
  parser_->append(text, parsed_);
  const bool differs = parsed_ != ids;
  if (differs) {
    log_warning(
        "data.parse_special = false: {} of {} has the text of a special token, which stays text: "
        "{}; `tessera generate` parses such texts in a prompt, and true parses them here",
        quote(field),
        where,
        quote(text));
  }
  if (differs || ++texts_ == 2 * kExamples) parser_.reset();
}

}  // namespace tessera
