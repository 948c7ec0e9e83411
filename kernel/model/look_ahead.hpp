#pragma once
#include <string>
#include <vector>

#include "kernel/model/chunk.hpp"

namespace tessera {

/// Finds phases that look at later rows of a sequence in a model whose attention does not: a
/// language model learns from tokens that it will not have when it writes.
class LookAhead {
 public:
  void add(const std::vector<Chunk>& chunks);
  /// A warning for each component and reason; nothing where the attention looks ahead, too.
  void warn() const;

 private:
  bool meant_ = false;  ///< by the attention of the model
  std::vector<std::string> found_;
};

}  // namespace tessera
