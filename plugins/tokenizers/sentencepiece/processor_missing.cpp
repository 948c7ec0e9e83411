#include "processor.hpp"
#include "tessera/error.hpp"

namespace tessera {

struct Processor::State {};

Processor::Processor(const ModelFile&) {
  fail_config(
      "tokenizer.type: \"sentencepiece\" needs libsentencepiece, which this build is without: "
      "install libsentencepiece-dev (tests/setup.sh names all packages), then configure and build "
      "again");
}
Processor::Processor(Processor&& other) noexcept = default;
Processor::~Processor() = default;
i64 Processor::size() const { return 0; }
SpecialIds Processor::special_ids() const { return {}; }
void Processor::encode(std::string_view, std::vector<i32>&) const {}
std::string Processor::decode(const std::vector<i32>&) const { return {}; }

}  // namespace tessera
