#pragma once
#include <functional>
#include <string_view>

#include "model_file.hpp"

namespace tessera {

/// Cuts a text into parts whose tokens, one after the other, are those of the whole. The library
/// takes a hundred bytes of memory for each byte of a text, and more time for each the longer it
/// is.
///
/// BPE merges neighbours until none makes a token, whatever stands elsewhere. So a text may be cut
/// before a space where no token goes on after a space that stands within it; the model puts the
/// space back, which it has before every text. Other models are not cut: unigram ones add up scores
/// from the beginning of a text, and normal forms may look at several characters.
class SentenceCuts {
 public:
  explicit SentenceCuts(const ModelFile& file);
  /// May texts of this model be cut?
  bool allowed() const { return allowed_; }

  using Take = std::function<void(std::string_view part)>;
  /// Calls `take` with the parts of `text`, without the spaces between them.
  void for_each(std::string_view text, const Take& take) const;

 private:
  bool allowed_ = false;
};

}  // namespace tessera
