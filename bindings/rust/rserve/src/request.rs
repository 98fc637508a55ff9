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

/// When the frames of a video are. It is never guessed.
#[derive(Clone, PartialEq, Debug)]
pub enum FrameTimes<'a> {
    /// So many frames a second.
    Fps(f64),
    /// Seconds, one a frame, ascending.
    Seconds(Cow<'a, [f64]>),
}

/// Frames of one video, one after another.
#[derive(Clone, PartialEq, Debug)]
pub struct Frames<'a> {
    /// How the pixels lie.
    pub layout: Layout,
    /// Of each frame, in pixels.
    pub width: i32,
    /// Of each frame, in pixels.
    pub height: i32,
    /// From row to row; 0: without gaps.
    pub row_stride_bytes: i64,
    /// How many there are.
    pub num_frames: i32,
    /// From frame to frame; 0: without gaps.
    pub frame_stride_bytes: i64,
    /// When they are.
    pub times: FrameTimes<'a>,
}

/// The numbers of supplied embeddings, little-endian.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(i32)]
pub enum Dtype {
    /// 32-bit floats.
    #[default]
    F32 = sys::RSERVE_DTYPE_F32,
    /// bfloat16.
    Bf16 = sys::RSERVE_DTYPE_BF16,
    /// 16-bit floats.
    F16 = sys::RSERVE_DTYPE_F16,
}

/// The shape of embeddings that the same encoder made elsewhere: `rows` of `width` numbers.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Embeddings {
    /// What a number is.
    pub dtype: Dtype,
    /// `grid_t * grid_h * grid_w`.
    pub rows: i64,
    /// The model's hidden size.
    pub width: i64,
    /// Temporal patches; 0: 1.
    pub grid_t: i32,
    /// Rows of embedding rows.
    pub grid_h: i32,
    /// Columns of embedding rows.
    pub grid_w: i32,
    /// A video's: seconds between temporal patches; 0: a picture.
    pub seconds_per_grid: f64,
}

#[derive(Clone)]
enum Part<'a> {
    Tokens(Cow<'a, [i32]>),
    Text(sys::rserve_part_type_t, Cow<'a, str>),
    Image(Bytes<'a>),
    Pixels { bytes: Bytes<'a>, layout: Layout, width: i32, height: i32, row_stride_bytes: i64 },
    Frames(Bytes<'a>, Frames<'a>),
    Embeddings(Bytes<'a>, Embeddings),
    Video(Bytes<'a>, f64),
}

/// What a C part points to beside its data.
enum Beside {
    Nothing,
    Frames(Box<sys::rserve_frames>),
    Embeddings(Box<sys::rserve_embeddings>),
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
    cache_salt: Cow<'a, str>,
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

    /// A video as frames, each temporal patch of which is encoded by itself.
    pub fn frames(self, pixels: impl Into<Bytes<'a>>, frames: Frames<'a>) -> Self {
        self.part(Part::Frames(pixels.into(), frames))
    }

    /// An animated GIF as a video, of which `fps` frames a second are taken; 0: 2.
    pub fn video(self, file: impl Into<Bytes<'a>>, fps: f64) -> Self {
        self.part(Part::Video(file.into(), fps))
    }

    /// Embeddings that the same encoder made elsewhere, in the order of its rows.
    pub fn embeddings(self, rows: impl Into<Bytes<'a>>, shape: Embeddings) -> Self {
        self.part(Part::Embeddings(rows.into(), shape))
    }

    /// Shares cached embeddings with requests of the same salt only: a tenant's name, for example.
    pub fn cache_salt(mut self, salt: impl Into<Cow<'a, str>>) -> Self {
        self.cache_salt = salt.into();
        self
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
        let beside: Vec<Beside> = self.parts.iter().map(Part::beside).collect();
        let parts: Vec<sys::rserve_part> =
            self.parts.iter().zip(&beside).map(|(part, beside)| part.lower(lend, beside)).collect();
        let request = sys::rserve_request {
            parts: parts.as_ptr(),
            num_parts: parts.len(),
            user_data: self.user_data,
            timeout_ns: self.timeout_ns,
            flags: self.flags,
            temperature: self.temperature,
            top_p: self.top_p,
            seed: self.seed,
            cache_salt: self.cache_salt.as_ptr().cast(),
            cache_salt_length: self.cache_salt.len(),
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
            Part::Image(bytes)
            | Part::Pixels { bytes, .. }
            | Part::Frames(bytes, _)
            | Part::Embeddings(bytes, _)
            | Part::Video(bytes, _) => Some(bytes),
            Part::Tokens(_) | Part::Text(..) => None,
        }
    }

    fn beside(&self) -> Beside {
        match self {
            Part::Frames(_, frames) => {
                let mut c = Box::new(sys::rserve_frames::init());
                c.num_frames = frames.num_frames;
                c.frame_stride_bytes = frames.frame_stride_bytes;
                match &frames.times {
                    FrameTimes::Fps(fps) => c.fps = *fps,
                    FrameTimes::Seconds(seconds) => {
                        c.timestamps_s = seconds.as_ptr();
                        c.num_timestamps = seconds.len();
                    }
                }
                Beside::Frames(c)
            }
            Part::Embeddings(_, shape) => {
                let mut c = Box::new(sys::rserve_embeddings::init());
                c.dtype = shape.dtype as i32;
                (c.rows, c.width) = (shape.rows, shape.width);
                (c.grid_t, c.grid_h, c.grid_w) = (shape.grid_t, shape.grid_h, shape.grid_w);
                c.seconds_per_grid = shape.seconds_per_grid;
                Beside::Embeddings(c)
            }
            Part::Video(_, fps) => {
                let mut c = Box::new(sys::rserve_frames::init());
                c.fps = *fps;
                Beside::Frames(c)
            }
            _ => Beside::Nothing,
        }
    }

    /// `beside` must outlive what is returned.
    fn lower(&self, lend: bool, beside: &Beside) -> sys::rserve_part {
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
            Part::Frames(bytes, _) => {
                let bytes = bytes.as_slice();
                (bytes.as_ptr().cast(), bytes.len(), sys::RSERVE_PART_FRAMES)
            }
            Part::Embeddings(bytes, _) => {
                let bytes = bytes.as_slice();
                (bytes.as_ptr().cast(), bytes.len(), sys::RSERVE_PART_EMBEDDINGS)
            }
            Part::Video(bytes, _) => {
                let bytes = bytes.as_slice();
                (bytes.as_ptr().cast(), bytes.len(), sys::RSERVE_PART_VIDEO)
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
            Part::Frames(_, frames) => {
                (frames.layout, frames.width, frames.height, frames.row_stride_bytes)
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
            frames: match beside {
                Beside::Frames(frames) => &**frames,
                _ => std::ptr::null(),
            },
            embeddings: match beside {
                Beside::Embeddings(embeddings) => &**embeddings,
                _ => std::ptr::null(),
            },
        }
    }
}
