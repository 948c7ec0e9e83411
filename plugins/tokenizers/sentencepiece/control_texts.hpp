#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model_file.hpp"

namespace tessera {

/// The control symbols of a model, as "<s>", where they stand in a text. The library never makes
/// them of a text. Thread-safe once it is made.
class ControlTexts {
 public:
  explicit ControlTexts(const std::vector<ModelPiece>& pieces);
  bool empty() const { return by_first_.empty(); }

  /// A part of a text: a control symbol, or what lies between two, with -1.
  using Take = std::function<void(std::string_view part, i32 id)>;
  /// Calls `take` with all of `text`, from the left, with the longest symbol of several at one
  /// place; parts without a byte are left out.
  void for_each(std::string_view text, const Take& take) const;

 private:
  std::map<char, std::vector<std::pair<std::string, i32>>> by_first_;  // the longest first
};

}  // namespace tessera
