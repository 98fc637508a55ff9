//! What an engine is asked.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use rserve_sys as sys;

/// Memory that several owners share, kept until the engine lets go of it.
pub(crate) type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// The bytes of a picture: borrowed for the request, or owned.
#[derive(Clone)]
pub enum Bytes<'a> {
    /// Copied by [`crate::Engine::submit`], lent by [`crate::Scope::submit`].
    Borrowed(&'a [u8]),
    /// Never copied; the request's share is dropped once the engine has let go of it.
    Shared(Arc<dyn AsRef<[u8]> + Send + Sync>),
}

impl Bytes<'_> {
    fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Borrowed(bytes) => bytes,
            Bytes::Shared(bytes) => (**bytes).as_ref(),
        }
    }
}

impl<'a> From<&'a [u8]> for Bytes<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Bytes::Borrowed(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for Bytes<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Bytes::Borrowed(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Bytes<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Bytes::Borrowed(bytes)
    }
}

impl From<Vec<u8>> for Bytes<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::Shared(Arc::new(bytes))
    }
}

impl<T: AsRef<[u8]> + Send + Sync + 'static> From<Arc<T>> for Bytes<'_> {
    fn from(bytes: Arc<T>) -> Self {
        Bytes::Shared(bytes)
    }
}

/// How pixels lie: one byte a sample, top row first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(i32)]
pub enum Layout {
    /// R, G, B.
    #[default]
    Rgb8 = sys::RSERVE_LAYOUT_RGB8,
    /// R, G, B, A; shown over white.
    Rgba8 = sys::RSERVE_LAYOUT_RGBA8,
    /// One sample a pixel.
    Gray8 = sys::RSERVE_LAYOUT_GRAY8,
}

#[derive(Clone)]
enum Part<'a> {
    Tokens(Cow<'a, [i32]>),
    Text(sys::rserve_part_type_t, Cow<'a, str>),
    Image(Bytes<'a>),
    Pixels { bytes: Bytes<'a>, layout: Layout, width: i32, height: i32, row_stride_bytes: i64 },
}

/// A prompt of text and pictures, in order, and what to do with it. Reusable.
#[derive(Clone, Default)]
pub struct Request<'a> {
    parts: Vec<Part<'a>>,
    flags: u32,
    user_data: u64,
    timeout_ns: i64,
    temperature: f32,
    top_p: f32,
    seed: u64,
}

impl<'a> Request<'a> {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn part(mut self, part: Part<'a>) -> Self {
        self.parts.push(part);
        self
    }

    fn flag(mut self, flag: u32) -> Self {
        self.flags |= flag;
        self
    }

    /// A user's text, never a control token.
    pub fn text(self, text: impl Into<Cow<'a, str>>) -> Self {
        self.part(Part::Text(sys::RSERVE_PART_TEXT, text.into()))
    }

    /// Text in which names of special tokens become the tokens.
    pub fn template(self, text: impl Into<Cow<'a, str>>) -> Self {
        self.part(Part::Text(sys::RSERVE_PART_TEMPLATE, text.into()))
    }

    /// Begins a message of a chat: "system", "user" or "assistant".
    pub fn role(self, role: impl Into<Cow<'a, str>>) -> Self {
        self.part(Part::Text(sys::RSERVE_PART_ROLE, role.into()))
    }

    /// Token ids; control tokens are allowed, placeholders of pictures are not.
    pub fn tokens(self, tokens: impl Into<Cow<'a, [i32]>>) -> Self {
        self.part(Part::Tokens(tokens.into()))
    }

    /// A picture as a file.
    pub fn image(self, file: impl Into<Bytes<'a>>) -> Self {
        self.part(Part::Image(file.into()))
    }

    /// A picture as R, G, B bytes, top row first, without gaps between rows.
    pub fn pixels(self, bytes: impl Into<Bytes<'a>>, width: i32, height: i32) -> Self {
        self.pixels_in(Layout::Rgb8, bytes, width, height, 0)
    }

    /// The same in any layout, rows `row_stride_bytes` apart (0: without gaps).
    pub fn pixels_in(
        self,
        layout: Layout,
        bytes: impl Into<Bytes<'a>>,
        width: i32,
        height: i32,
        row_stride_bytes: i64,
    ) -> Self {
        self.part(Part::Pixels { bytes: bytes.into(), layout, width, height, row_stride_bytes })
    }

    /// Writes the model's chat template around the parts.
    pub fn chat(self) -> Self {
        self.flag(sys::RSERVE_REQUEST_F_CHAT)
    }

    /// With [`Request::chat`]: "Picture 1: " before the first picture, and so on.
    pub fn number_images(self) -> Self {
        self.flag(sys::RSERVE_REQUEST_F_NUMBER_IMAGES)
    }

    /// The parts hold the tokens that begin and end a picture.
    pub fn no_image_markers(self) -> Self {
        self.flag(sys::RSERVE_REQUEST_F_NO_IMAGE_MARKERS)
    }

    /// Keeps the last prompt token's logits for the [`crate::Detail`].
    pub fn keep_logits(self) -> Self {
        self.flag(sys::RSERVE_REQUEST_F_KEEP_LOGITS)
    }

    /// Keeps the pictures' embeddings for the [`crate::Detail`].
    pub fn keep_embeddings(self) -> Self {
        self.flag(sys::RSERVE_REQUEST_F_KEEP_EMBEDDINGS)
    }

    /// Nobody will ask for the detail: the request needs no acknowledge.
    pub fn no_detail(self) -> Self {
        self.flag(sys::RSERVE_REQUEST_F_NO_DETAIL)
    }

    /// Comes back in every event.
    pub fn user_data(mut self, user_data: u64) -> Self {
        self.user_data = user_data;
        self
    }

    /// From the submit; then the request fails with `DeadlineExceeded`. Zero fails at once; more than
    /// 292 years is no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        // 0 would be "none".
        self.timeout_ns = i64::try_from(timeout.as_nanos()).unwrap_or(0);
        if timeout.is_zero() {
            self.timeout_ns = 1;
        }
        self
    }

    /// 0: the most probable token.
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.temperature = temperature;
        self
    }

    /// In (0, 1]; 0 stands for 1.
    pub fn top_p(mut self, top_p: f32) -> Self {
        self.top_p = top_p;
        self
    }

    /// Of sampling.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    pub(crate) fn has_detail(&self) -> bool {
        self.flags & sys::RSERVE_REQUEST_F_NO_DETAIL == 0
    }

    /// The number of pictures.
    pub fn num_pictures(&self) -> usize {
        self.parts.iter().filter(|part| part.picture().is_some()).count()
    }

    /// Calls `submit` with the C form of the request, which lives for the call. Borrowed pictures are
    /// lent if `lend`; shared ones always are.
    pub(crate) fn lower<R>(
        &self,
        lend: bool,
        submit: impl FnOnce(*const sys::rserve_request) -> R,
    ) -> R {
        let parts: Vec<sys::rserve_part> = self.parts.iter().map(|part| part.lower(lend)).collect();
        let request = sys::rserve_request {
            parts: parts.as_ptr(),
            num_parts: parts.len(),
            user_data: self.user_data,
            timeout_ns: self.timeout_ns,
            flags: self.flags,
            temperature: self.temperature,
            top_p: self.top_p,
            seed: self.seed,
            ..sys::rserve_request::init()
        };
        submit(&request)
    }

    /// What the engine holds of each picture, in order.
    pub(crate) fn inputs(&self, lend: bool) -> Vec<Input> {
        let pictures = self.parts.iter().filter_map(Part::picture);
        pictures
            .map(|bytes| match bytes {
                Bytes::Shared(bytes) => Input::Shared(bytes.clone()),
                Bytes::Borrowed(_) if lend => Input::Lent,
                Bytes::Borrowed(_) => Input::Free,
            })
            .collect()
    }
}

/// What the engine holds of a picture's memory.
pub(crate) enum Input {
    Free,
    Lent,
    /// Held for its drop.
    Shared(#[allow(dead_code)] SharedBytes),
}

impl<'a> Part<'a> {
    fn picture(&self) -> Option<&Bytes<'a>> {
        match self {
            Part::Image(bytes) | Part::Pixels { bytes, .. } => Some(bytes),
            Part::Tokens(_) | Part::Text(..) => None,
        }
    }

    fn lower(&self, lend: bool) -> sys::rserve_part {
        let (data, count, r#type) = match self {
            Part::Tokens(tokens) => (tokens.as_ptr().cast(), tokens.len(), sys::RSERVE_PART_TOKENS),
            Part::Text(r#type, text) => (text.as_ptr().cast(), text.len(), *r#type),
            Part::Image(bytes) => {
                let bytes = bytes.as_slice();
                (bytes.as_ptr().cast(), bytes.len(), sys::RSERVE_PART_IMAGE)
            }
            Part::Pixels { bytes, .. } => {
                let bytes = bytes.as_slice();
                (bytes.as_ptr().cast(), bytes.len(), sys::RSERVE_PART_PIXELS)
            }
        };
        let borrow = match self.picture() {
            Some(Bytes::Shared(_)) => true,
            Some(Bytes::Borrowed(_)) => lend,
            None => false,
        };
        let (layout, width, height, row_stride_bytes) = match self {
            Part::Pixels { layout, width, height, row_stride_bytes, .. } => {
                (*layout, *width, *height, *row_stride_bytes)
            }
            _ => (Layout::default(), 0, 0, 0),
        };
        sys::rserve_part {
            r#type,
            flags: if borrow { sys::RSERVE_PART_F_BORROW } else { 0 },
            data,
            count,
            width,
            height,
            row_stride_bytes,
            layout: layout as i32,
            reserved: 0,
        }
    }
}
