#include "tessera/types.hpp"

#include "tensor_support.hpp"
#include "tessera/base/memory.hpp"

namespace tessera {
namespace types_test {

TEST(DTypes, NamesAndSizes) {
  const std::pair<DType, std::string> all[] = {{DType::fp64, "fp64"},
                                               {DType::fp32, "fp32"},
                                               {DType::fp16, "fp16"},
                                               {DType::bf16, "bf16"},
                                               {DType::i64, "i64"},
                                               {DType::i32, "i32"},
                                               {DType::u8, "u8"},
                                               {DType::boolean, "bool"}};
  for (const auto& [dtype, name] : all) {
    EXPECT_EQ(dtype_name(dtype), name);
    EXPECT_EQ(parse_dtype(name), dtype);
    EXPECT_EQ(is_floating(dtype), name.find('f') != std::string::npos);
  }
  EXPECT_EQ(dtype_size(DType::fp64), 8);
  EXPECT_EQ(dtype_size(DType::i32), 4);
  EXPECT_EQ(dtype_size(DType::bf16), 2);
  EXPECT_EQ(dtype_size(DType::boolean), 1);
  EXPECT_ERROR(
      parse_dtype("f32"),
      "\"f32\" is not an element type; there are fp64, fp32, fp16, bf16, i64, i32, u8, bool");
}

TEST(Categories, HaveNames) {
  EXPECT_EQ(category_name(Category::parameters), "parameters");
  EXPECT_EQ(category_name(static_cast<Category>(kCategories - 1)), "workspace");
  EXPECT_THROW(category_name(static_cast<Category>(kCategories)), Error);
}

TEST(Shapes, CountAndCompare) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape.elements(), 24);
  EXPECT_EQ(shape[-1], 4);
  EXPECT_EQ(shape.text(), "[2, 3, 4]");
  EXPECT_EQ(dense_strides(shape), (Shape{12, 4, 1}));
  EXPECT_EQ(dense_strides({2, 0, 4}), (Shape{4, 4, 1}));
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ(Shape().text(), "[]");
  EXPECT_FALSE(shape == (Shape{2, 3}));
  EXPECT_FALSE(shape == (Shape{2, 3, 5}));
}

TEST(Shapes, RefuseWhatTheyLack) {
  const Shape shape{2, 3};
  EXPECT_ERROR(shape[2], "shape [2, 3] has no dimension 2");
  EXPECT_ERROR(shape[-3], "shape [2, 3] has no dimension -3");
  EXPECT_ERROR(Shape({1, 2, 3, 4, 5, 6, 7}),
               "a shape has at most 6 dimensions: [1, 2, 3, 4, 5, 6] has no room");
}

}  // namespace types_test
}  // namespace tessera
