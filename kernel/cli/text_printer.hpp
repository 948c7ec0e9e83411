#pragma once
#include <string_view>
#include <vector>

#include "kernel/train/run/growing_text.hpp"
#include "kernel/train/run/text_batch.hpp"
#include "tessera/io/json.hpp"

namespace tessera {

/// Prints bytes at once.
void print_now(std::string_view bytes);
Json ids_json(const std::vector<i32>& ids);

/// Prints texts in their order: a single one as it grows, several when they are complete; or an
/// object each, for programs.
class TextPrinter {
 public:
  /// The texts outlive it.
  TextPrinter(const std::vector<GrowingText>& texts, bool json);
  /// What it has to be told. It outlives them.
  TextEvents events();

 private:
  bool streams() const { return texts_.size() == 1 && !json_; }
  void print_new();
  void print_complete();

  const std::vector<GrowingText>& texts_;
  bool json_;
  std::size_t next_ = 0;     // text
  std::size_t printed_ = 0;  // bytes of the one that grows
};

}  // namespace tessera
