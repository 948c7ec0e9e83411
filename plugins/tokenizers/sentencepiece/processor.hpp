#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model_file.hpp"
#include "tessera/data.hpp"

namespace tessera {

/// The library that encodes and decodes. Thread-safe once it is made.
class Processor {
 public:
  /// Throws ConfigError where the library refuses the model, or where this build is without it.
  explicit Processor(const ModelFile& file);
  Processor(Processor&& other) noexcept;
  ~Processor();

  i64 size() const;
  /// Those that the model has of "<s>", "</s>", "<pad>" and "<unk>".
  SpecialIds special_ids() const;
  /// Appends the tokens of a text.
  void encode(std::string_view text, std::vector<i32>& ids) const;
  /// Ids are below size().
  std::string decode(const std::vector<i32>& ids) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
