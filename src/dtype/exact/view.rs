//! Arrays as programs have them: several dimensions, gaps between elements, a mask.

use super::Summand;
use std::marker::PhantomData;

/// Most dimensions of an array (those of Fortran).
pub const MOST_DIMENSIONS: usize = 15;

/// Elements gathered at once.
const GATHERED: usize = 512;

/// One dimension of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dimension {
    /// Elements along it.
    pub extent: usize,
    /// Bytes from one element to the next; negative for backwards.
    pub stride: isize,
    /// Bytes from one entry of the mask to the next; 0 without a mask.
    pub mask_stride: isize,
}

/// The mask of an array: an element counts where any byte of its entry is not zero.
#[derive(Clone, Copy, Debug)]
pub struct Mask {
    /// The entry of the first element.
    pub first: *const u8,
    /// Bytes of an entry.
    pub entry_bytes: usize,
}

/// An array with gaps, and a mask if it has one.
#[derive(Clone, Debug)]
pub struct View<'a, T> {
    first: *const T,
    mask: Option<Mask>,
    dimensions: &'a [Dimension],
    elements: usize,
    borrow: PhantomData<&'a [T]>,
}

impl<'a, T: Summand> View<'a, T> {
    /// An array of up to 15 dimensions; no dimension is one element.
    ///
    /// # Panics
    /// With more dimensions.
    ///
    /// # Safety
    /// Every element that the dimensions name can be read, and so can its entry of the mask, for
    /// `'a`. Alignment does not matter.
    pub unsafe fn new(
        first: *const T,
        dimensions: &'a [Dimension],
        mask: Option<Mask>,
    ) -> View<'a, T> {
        assert!(dimensions.len() <= MOST_DIMENSIONS, "at most 15 dimensions");
        let extents = dimensions.iter().map(|dimension| dimension.extent);
        View {
            first,
            mask,
            dimensions,
            elements: extents.product(),
            borrow: PhantomData,
        }
    }

    /// Elements, masked or not.
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// The elements as a slice, if they have no gaps, order and mask.
    pub(super) fn contiguous(&self) -> Option<&'a [T]> {
        let mut dense = size_of::<T>() as isize;
        for dimension in self.dimensions {
            if dimension.extent != 1 && dimension.stride != dense {
                return None;
            }
            dense *= dimension.extent as isize;
        }
        if self.mask.is_some() || !self.first.is_aligned() || self.elements == 0 {
            return None;
        }
        // SAFETY: the elements lie one behind the other, and `new` promises that they can be read.
        Some(unsafe { std::slice::from_raw_parts(self.first, self.elements) })
    }

    /// Calls `take` with all elements that count, some at a time.
    pub(super) fn gather(&self, take: &mut impl FnMut(&[T])) {
        if self.elements == 0 {
            return;
        }
        let mut buffer = [T::from_raw(0); GATHERED];
        let mut filled = 0;
        let mut index = [0usize; MOST_DIMENSIONS];
        let (mut at, mut mask_at) = (0isize, 0isize);
        let one = Dimension {
            extent: 1,
            ..Dimension::default()
        };
        let inner = self.dimensions.first().copied().unwrap_or(one);
        loop {
            for step in 0..inner.extent as isize {
                let element = at.wrapping_add(step * inner.stride);
                let entry = mask_at.wrapping_add(step * inner.mask_stride);
                // SAFETY: `new` promises every element and entry that the indices name.
                unsafe {
                    let place = self.first.cast::<u8>().offset(element).cast::<T>();
                    buffer[filled] = place.read_unaligned();
                    filled += usize::from(self.counts(entry));
                }
                if filled == GATHERED {
                    take(&buffer);
                    filled = 0;
                }
            }
            // The next row, as a counter with one digit a dimension.
            let mut dimension = 1;
            loop {
                if dimension >= self.dimensions.len() {
                    take(&buffer[..filled]);
                    return;
                }
                let Dimension {
                    extent,
                    stride,
                    mask_stride,
                } = self.dimensions[dimension];
                index[dimension] += 1;
                at += stride;
                mask_at += mask_stride;
                if index[dimension] < extent {
                    break;
                }
                at -= stride * extent as isize;
                mask_at -= mask_stride * extent as isize;
                index[dimension] = 0;
                dimension += 1;
            }
        }
    }

    /// Whether the element counts whose entry lies `offset` bytes behind the first.
    ///
    /// # Safety
    /// The entry can be read.
    #[inline(always)]
    unsafe fn counts(&self, offset: isize) -> bool {
        let Some(mask) = self.mask else { return true };
        // SAFETY: the caller promises the entry; reads are unaligned.
        unsafe {
            let entry = mask.first.offset(offset);
            match mask.entry_bytes {
                1 => *entry != 0,
                4 => entry.cast::<u32>().read_unaligned() != 0,
                bytes => (0..bytes).any(|byte| *entry.add(byte) != 0),
            }
        }
    }
}
